"""Figures of methods over training: returns, plasticity, norms of gradients and parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from continual_learning.paper.artifacts import METHODS, Artifact
from continual_learning.paper.figures import theme
from continual_learning.paper.figures.curves import axis, panel
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
    """A panel of a figure.

    Attributes:
      experiment: the experiment that it shows.
      metric: the column, or several whose mean is shown; none for the experiment's main metric.
      title: the title of the panel.
      y: the title of the y axis; empty for that of the metric.
    """

    experiment: str
    metric: tuple[str, ...]
    title: str = ""
    y: str = ""

    def axis(self, runs: Runs) -> tuple[str, str]:
        """Return the title of the axis, and the format of its numbers."""
        title, form = axis(self.metric[0] if self.metric else runs.spec.headline)
        return self.y or title, form


def _robots(*metric: str, y: str = "") -> tuple[Panel, ...]:
    both = ("slippery_ant", "slippery_humanoid")
    return tuple(Panel(name, metric, NAMES[name], y) for name in both)


_PANELS: dict[str, tuple[Panel, ...]] = {
    "ant_humanoid_main": _robots(),
    "dormant_linearized": (
        Panel("slippery_ant", ("dormant_ratio",), "Dormant units"),
        Panel("slippery_ant", ("linearized_ratio",), "Linearized units"),
    ),
    "grad_norm": (Panel("slippery_ant", ("policy_gradient_norm",)),),
    "individual_network_grad_norm": (Panel("slippery_ant", ("value_gradient_norm",)),),
    "humanoid_grad_norm": (
        Panel("slippery_humanoid", ("policy_gradient_norm",), "Policy network"),
        Panel("slippery_humanoid", ("value_gradient_norm",), "Value network"),
    ),
    "param_norm": _robots(
        "policy_parameter_norm", "value_parameter_norm", y="norm of the parameters"
    ),
    "perm_mnist": (Panel("permuted_mnist", ("test_accuracy",)),),
}
_WITHOUT_BANDS = ("ant_humanoid_main",)  # as in the paper, whose tables have these ranges instead
_STACKED = ("humanoid_grad_norm", "param_norm")  # as in the paper; other panels are side by side


def figure(artifact: Artifact, folders: Sequence[str | Path]) -> theme.Drawn:
    """Draw curves of all methods in one panel or two."""
    found = by_experiment(artifact, folders)
    panels = _PANELS.get(artifact.id) or tuple(Panel(name, ()) for name in found)
    stacked, band = artifact.id in _STACKED or len(panels) == 1, artifact.id not in _WITHOUT_BANDS
    curves = [_curves(found[each.experiment], each.metric) for each in panels]
    color = theme.by_method([name for each in curves for name in each])
    charts = [
        panel(
            found[each.experiment],
            lines,
            color,
            y=each.axis(found[each.experiment])[0],
            title=each.title,
            band=band,
            width=theme.WIDTH if stacked else theme.WIDTH // 2 - 6,
            format=each.axis(found[each.experiment])[1],
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
        expected = () if artifact.any_study else METHODS
        said = [*remarks(runs, expected), *returns, *lost]
        notes.append(f"{NAMES.get(name, runs.spec.title)}: {' '.join(said)}")
    returns = [] if all(each.metric for each in panels) else next(iter(found.values())).returns
    return theme.Drawn(together(*charts, spacing=12), [*notes, LINES + BANDS * band], returns)


def _curves(runs: Runs, metric: tuple[str, ...]) -> dict[str, Any]:
    """Return the curves of a column, or of the mean of several columns, by method."""
    first, *others = (runs.curves(name) for name in metric or (runs.metric,))
    for each in others:
        for method, curves in first.items():
            total = curves.values + each[method].values
            first[method] = dataclasses.replace(curves, values=total)
    return {
        method: dataclasses.replace(curves, values=curves.values / (1 + len(others)))
        for method, curves in first.items()
    }
