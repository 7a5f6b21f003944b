"""Tables of what was learned in tasks, and of what is left of it after later tasks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from continual_learning.analysis import style, summary
from continual_learning.analysis.adaptation import adaptation
from continual_learning.analysis.curves import Curves, curves
from continual_learning.analysis.forgetting import column, forgetting
from continual_learning.paper.artifacts import Artifact
from continual_learning.paper.remarks import remarks
from continual_learning.paper.runs import by_experiment
from continual_learning.paper.tables.table import ABSENT, Cell, Column, Table, measured
from continual_learning.schema.errors import StudyError

_METRICS = {"continual_metaworld": "success"}
_COLUMNS = ("learned", "kept", "forgetting", "retention")
_EXPLAINED = (
    "The values come from deterministic episodes and are means over all tasks but the last. "
    "Learned: at the end of the task itself; kept: at the end of all tasks; forgetting: learned "
    "minus kept; retention: kept as a share of learned.",
    "They are IQMs over seeds, with the 95 % bootstrap interval. There is nothing to forget before "
    "the second task has ended.",
)


def methods(artifact: Artifact, folders: Sequence[str | Path]) -> Table:
    """Return the table of an artifact, with a row for each method."""
    [(name, runs)] = by_experiment(artifact, folders).items()
    metric = _METRICS.get(name, "")
    if column("seen", metric) not in runs.frame:
        raise StudyError(
            f"{folders[0]} has no evaluations, which {artifact.id} needs: run the study with "
            "--eval-every."
        )
    tasks = runs.spec.task_names
    of_task = {task: curves(runs.frame, column(task, metric)) for task in dict.fromkeys(tasks)}
    seen = curves(runs.frame, column("seen", metric))
    shown = artifact.studies[0].methods
    order = [*(m for m in shown if m in seen), *(m for m in seen if m not in shown)]
    rows, ends = [], []
    for method in order:
        complete = tasks[: _complete(seen[method])]
        evaluations = {task: each[method] for task, each in of_task.items()}
        rows.append([style.name(method), *_cells(evaluations, complete, 3 if metric else 1)])
        if len(complete) < len(tasks):
            ends.append(f"{style.name(method)} {len(complete)}")
    said = remarks(runs, shown)
    behind = (
        [f"Tasks of {len(tasks)} that all seeds have ended: {', '.join(ends)}."] if ends else []
    )
    notes = (f"This study: {' '.join([*said, *behind])}", *_EXPLAINED)
    heads = [Column(each.capitalize(), each) for each in _COLUMNS]
    return Table(
        artifact.title,
        (Column("Method", "method"), *heads),
        tuple(map(tuple, rows)),
        notes,
        artifact.label,
    )


def _cells(evaluations: dict[str, Curves], order: Sequence[str], decimals: int) -> list[Cell]:
    if len(set(order)) < 2:
        return [ABSENT] * len(_COLUMNS)
    found = forgetting(evaluations, order)
    means = [getattr(found, each).mean(axis=1) for each in _COLUMNS[:-1]]
    return [
        measured(summary.of_seeds(scores), "interval", digits)
        for scores, digits in zip((*means, found.retention), (decimals,) * 3 + (2,), strict=True)
    ]


def _complete(seen: Curves) -> int:
    """Return the number of tasks at whose end all seeds have been evaluated."""
    measured = ~np.isnan(adaptation(seen).end).any(axis=0)
    return int(np.logical_and.accumulate(measured).sum())
