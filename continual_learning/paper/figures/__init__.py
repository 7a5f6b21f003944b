"""Figures of the paper: every figure is one chart definition, and all share one look."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from continual_learning.paper import artifacts
from continual_learning.paper.figures import (
    ablations,
    collapse,
    performance,
    single_tasks,
    theme,
    training,
    utilities,
)
from continual_learning.paper.figures.theme import FORMATS, check_format, save

__all__ = ["FORMATS", "check_format", "make", "register", "save"]


def make(id: str, folders: Sequence[str | Path] = ()) -> Any:
    """Return the figure with that id, an Altair chart; `save` writes it.

    If it shows returns and its study has both columns of returns, the figure has two charts, one
    above the other: one with our column, in which every environment counts once, and one with the
    column that the paper shows.

    Args:
      id: one of `artifacts.ARTIFACTS`.
      folders: folders of the studies that it needs.
    """
    artifact = artifacts.get(id, "figure")
    artifact.check_folders(folders)
    first = _MAKERS[id](artifact, folders)
    if len(first.returns) < 2:
        return theme.finish(first.chart, first.notes)
    others = [dataclasses.replace(artifact, returns=name) for name in first.returns[1:]]
    drawn = [first, *(_MAKERS[id](each, folders) for each in others)]
    pairs = zip(drawn, first.returns, strict=True)
    charts = [theme.headed(each.chart, name) for each, name in pairs]
    notes = dict.fromkeys(note for each in drawn for note in each.notes)
    return theme.finish(theme.alt.vconcat(*charts, spacing=16), notes)


def register(id: str, title: str, make: Callable[..., theme.Drawn]) -> None:
    """Add a figure of your own, which can be made from any study.

    Args:
      id: its name, as in `continual figure ID`.
      title: what it shows.
      make: a function that returns it, given its `Artifact` and the folders of studies.
    """
    artifacts.register(artifacts.Artifact(id, "figure", title, label=None, any_study=True))
    _MAKERS[id] = make


_MAKERS: dict[str, Callable[[artifacts.Artifact, Sequence[str | Path]], theme.Drawn]] = {
    "curves": training.figure,
    "flagship": performance.peak_and_final,
    "ant_humanoid_main": training.figure,
    "dormant_linearized": training.figure,
    "grad_norm": training.figure,
    "individual_network_grad_norm": training.figure,
    "humanoid_grad_norm": training.figure,
    "param_norm": training.figure,
    "rr": ablations.curves,
    "metaworld_grid_2x5": single_tasks.grid,
    "perm_mnist": training.figure,
    "bigrollout": ablations.curves,
    "big_dormant": ablations.curves,
    "big_linear": ablations.curves,
    "util_comp": utilities.shapes,
    "util_dist": utilities.distribution,
    "sharpness_ablation": ablations.points,
    "humanoid_rr": ablations.curves,
    "mnist_sharpness": ablations.points,
    "mnist_shapes": ablations.grid,
    "humanoid_peak_vs_final": performance.peak_and_final,
    "collapse_thresholds": collapse.thresholds,
}
