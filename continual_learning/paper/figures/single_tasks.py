"""The figure of single tasks: returns of all methods, in a panel for each task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from continual_learning.analysis import curves as curves_of
from continual_learning.analysis.curves import Curves
from continual_learning.paper.artifacts import Artifact
from continual_learning.paper.figures import theme
from continual_learning.paper.figures.curves import panel
from continual_learning.paper.figures.theme import alt
from continual_learning.paper.figures.training import BANDS, LINES
from continual_learning.paper.remarks import left_out, of_metric, single_tasks
from continual_learning.paper.runs import Runs, by_task

_HEIGHT = 84
_POINTS = 50


def grid(artifact: Artifact, folders: Sequence[str | Path]) -> theme.Drawn:
    """Draw a panel for each task, two in a row, as in the paper."""
    found = by_task(artifact, folders)
    curves = {task: _curves(runs) for task, runs in found.items()}
    color = theme.by_method([method for each in curves.values() for method in each])
    charts = [
        panel(
            runs,
            curves[task],
            color,
            y="episodic return",
            title=task,
            width=theme.WIDTH // 2 - 6,
            height=_HEIGHT,
        )
        for task, runs in found.items()
    ]
    lost = [f"{task}: {note}" for task, each in curves.items() for note in left_out(each)]
    returns = of_metric(next(iter(found.values())).metric)
    notes = [*single_tasks(artifact, found), *lost, *returns, LINES + BANDS]
    return theme.Drawn(alt.concat(*charts, columns=2, spacing=12), notes)


def _curves(runs: Runs) -> dict[str, Curves]:
    """Return curves in bins of whole rows, finer than the tenths of a task that tables use."""
    spec: Any = runs.spec
    row = spec.agent.row_steps(spec.stream)
    width = row * max(1, spec.steps // row // _POINTS)
    return curves_of.curves(runs.frame, runs.metric, bin=width)
