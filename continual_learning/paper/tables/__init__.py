"""Tables of the paper, from studies and from specs, beside its own numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from continual_learning.paper import artefacts
from continual_learning.paper.tables import forgetting, returns, runtime, settings, single_tasks
from continual_learning.paper.tables.table import Column, Measured, Table
from continual_learning.paper.tables.writers import WRITERS

__all__ = ["WRITERS", "Column", "Measured", "Table", "make"]


def make(id: str, folders: Sequence[str | Path] = ()) -> Table:
    """The table of that id.

    Args:
      id: see `artefacts.ARTEFACTS`.
      folders: of the studies that it is made of; none for tables of settings.
    """
    artefact = artefacts.get(id, "table")
    artefact.check_folders(folders)
    return _MAKERS[id](artefact, folders)


def _settings(artefact: artefacts.Artefact, folders: Sequence[str | Path]) -> Table:
    return settings.table(artefact)


_MAKERS: dict[str, Callable[[artefacts.Artefact, Sequence[str | Path]], Table]] = {
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
