"""Figures of the paper, each one chart definition, in one look."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from continual_learning.paper import artefacts
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

__all__ = ["FORMATS", "check_format", "make", "save"]


def make(id: str, folders: Sequence[str | Path] = ()) -> Any:
    """Return the figure of that id, an Altair chart; `save` writes it.

    Where it shows returns and its study has both, it is drawn twice, one above the other: with
    ours, in which every environment counts once, and with the one that the paper shows.

    Args:
      id: see `artefacts.ARTEFACTS`.
      folders: of the studies that it is made of.
    """
    artefact = artefacts.get(id, "figure")
    artefact.check_folders(folders)
    first = _MAKERS[id](artefact, folders)
    if len(first.returns) < 2:
        return theme.finish(first.chart, first.notes)
    others = [dataclasses.replace(artefact, returns=name) for name in first.returns[1:]]
    drawn = [first, *(_MAKERS[id](each, folders) for each in others)]
    pairs = zip(drawn, first.returns, strict=True)
    charts = [theme.headed(each.chart, name) for each, name in pairs]
    notes = dict.fromkeys(note for each in drawn for note in each.notes)
    return theme.finish(theme.alt.vconcat(*charts, spacing=16), notes)


_MAKERS: dict[str, Callable[[artefacts.Artefact, Sequence[str | Path]], theme.Drawn]] = {
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
