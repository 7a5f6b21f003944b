"""Tables of the paper from studies and specs, beside the numbers that the paper prints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from continual_learning.paper import artifacts
from continual_learning.paper.tables import forgetting, returns, runtime, settings, single_tasks
from continual_learning.paper.tables.table import Column, Measured, Table
from continual_learning.paper.tables.writers import WRITERS

__all__ = ["WRITERS", "Column", "Measured", "Table", "make", "register", "save"]


def make(id: str, folders: Sequence[str | Path] = ()) -> Table:
    """Return the table with that id.

    Args:
      id: one of `artifacts.ARTIFACTS`.
      folders: folders of the studies that it needs; none for tables of settings.
    """
    artifact = artifacts.get(id, "table")
    artifact.check_folders(folders)
    return _MAKERS[id](artifact, folders)


def register(id: str, title: str, make: Callable[..., Table]) -> None:
    """Add a table of your own, which can be made from any study.

    Args:
      id: its name, as in `continual table ID`.
      title: what it shows.
      make: a function that returns it, given its `Artifact` and the folders of studies.
    """
    artifacts.register(artifacts.Artifact(id, "table", title, label=None, any_study=True))
    _MAKERS[id] = make


def save(table: Table, path: Path, form: str) -> None:
    """Write a table as `form`: "md", "tex" or "csv"."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(WRITERS[form](table), encoding="utf-8")


def _settings(artifact: artifacts.Artifact, folders: Sequence[str | Path]) -> Table:
    return settings.table(artifact)


_MAKERS: dict[str, Callable[[artifacts.Artifact, Sequence[str | Path]], Table]] = {
    "methods": returns.methods,
    "ant_iqr": returns.methods,
    "hum_iqr": returns.methods,
    "continual_metaworld": returns.methods,
    "continual_minatar": returns.methods,
    "transform_perf": returns.shapes,
    "runtime": runtime.table,
    "ppo_hyperparameters": _settings,
    "network_architecture": _settings,
    "hyper_sweep": _settings,
    "cmw_sac_params": _settings,
    "mt1_reset_params": _settings,
    "minatar_reset_params": _settings,
    "cmw_reset_params": _settings,
    "mnist_shape_kappa": returns.shapes_and_sharpness,
    "mt1_success": single_tasks.table,
    "cmw_forgetting": forgetting.methods,
    "minatar_forgetting": forgetting.methods,
}
