"""Figures of methods over training: returns, plasticity, norms of gradients and parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from continual_learning.paper.artefacts import METHODS, Artefact
from continual_learning.paper.figures import theme
from continual_learning.paper.figures.curves import panel
from continual_learning.paper.figures.theme import alt
from continual_learning.paper.remarks import left_out, of_metric, remarks
from continual_learning.paper.runs import Runs, by_experiment

LINES = "Lines: IQM over seeds."
BANDS = " Bands: from the 25th to the 75th percentile."
NAMES = {
    "slippery_ant": "SlipperyAnt",
    "slippery_humanoid": "SlipperyHumanoid",
    "permuted_mnist": "Permuted MNIST",
}


class Panel(NamedTuple):
    """One of a figure.

    Attributes:
      experiment: whose.
      metric: the column, or several whose mean is shown; none: what says how well a method does.
      y: title of the axis.
      title: of the panel.
      format: of the numbers on the axis; empty for the usual one.
    """

    experiment: str
    metric: tuple[str, ...]
    y: str
    title: str = ""
    format: str = ""


def _robots(y: str, *metric: str) -> tuple[Panel, ...]:
    both = ("slippery_ant", "slippery_humanoid")
    return tuple(Panel(name, metric, y, NAMES[name]) for name in both)


_GRADIENT = "norm of the gradient"
_PANELS: dict[str, tuple[Panel, ...]] = {
    "ant_humanoid_main": _robots("episodic return"),
    "dormant_linearized": (
        Panel("slippery_ant", ("dormant_ratio",), "dormant units", "Dormant units", "~%"),
        Panel("slippery_ant", ("linearised_ratio",), "linearised units", "Linearised units", "~%"),
    ),
    "grad_norm": (Panel("slippery_ant", ("policy_gradient_norm",), _GRADIENT),),
    "individual_network_grad_norm": (Panel("slippery_ant", ("value_gradient_norm",), _GRADIENT),),
    "humanoid_grad_norm": (
        Panel("slippery_humanoid", ("policy_gradient_norm",), _GRADIENT, "Policy network"),
        Panel("slippery_humanoid", ("value_gradient_norm",), _GRADIENT, "Value network"),
    ),
    "param_norm": _robots(
        "norm of the parameters", "policy_parameter_norm", "value_parameter_norm"
    ),
    "perm_mnist": (Panel("permuted_mnist", ("test_accuracy",), "test accuracy", format="~%"),),
}
_WITHOUT_BANDS = ("ant_humanoid_main",)  # as in the paper, whose tables have them instead
_STACKED = ("humanoid_grad_norm", "param_norm")  # as in the paper; the rest is side by side


def figure(artefact: Artefact, folders: Sequence[str | Path]) -> theme.Drawn:
    """Curves of all methods, in one panel or two."""
    panels, found = _PANELS[artefact.id], by_experiment(artefact, folders)
    stacked, band = artefact.id in _STACKED or len(panels) == 1, artefact.id not in _WITHOUT_BANDS
    curves = [_curves(found[each.experiment], each.metric) for each in panels]
    colour = theme.by_method([name for each in curves for name in each])
    charts = [
        panel(
            found[each.experiment],
            lines,
            colour,
            y=each.y,
            title=each.title,
            band=band,
            width=theme.WIDTH if stacked else theme.WIDTH // 2 - 6,
            format=each.format,
        )
        for each, lines in zip(panels, curves, strict=True)
    ]
    together: Callable[..., Any] = alt.vconcat if stacked else alt.hconcat
    notes = []
    for name, runs in found.items():
        lost = {
            note: None
            for each, lines in zip(panels, curves, strict=True)
            for note in left_out(lines)
            if each.experiment == name
        }
        returns = [] if all(each.metric for each in panels) else of_metric(runs.metric)
        notes.append(f"{NAMES[name]}: {' '.join([*remarks(runs, METHODS), *returns, *lost])}")
    returns = [] if all(each.metric for each in panels) else next(iter(found.values())).returns
    return theme.Drawn(together(*charts, spacing=12), [*notes, LINES + BANDS * band], returns)


def _curves(runs: Runs, metric: tuple[str, ...]) -> dict[str, Any]:
    """Of a column, or of the mean of several."""
    first, *others = (runs.curves(name) for name in metric or (runs.metric,))
    for each in others:
        for method, curves in first.items():
            total = curves.values + each[method].values
            first[method] = dataclasses.replace(curves, values=total)
    return {
        method: dataclasses.replace(curves, values=curves.values / (1 + len(others)))
        for method, curves in first.items()
    }
