"""The table of single tasks: whether resets cost anything if the task never changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from continual_learning.analysis import style, summary
from continual_learning.paper.artifacts import Artifact
from continual_learning.paper.remarks import of_metric, single_tasks, usable
from continual_learning.paper.runs import Runs, by_task
from continual_learning.paper.tables.table import ABSENT, Cell, Column, Table, measured

_BASE = "adam"
_COLUMNS = {"success": "success", "evaluated": "eval_seen_success", "return": "latest_return"}
_DECIMALS = {"success": 2, "evaluated": 2, "return": 0}
_ALL = "All tasks"
_EXPLAINED = (
    "The last tenth of training counts: success and return of training episodes, and success of "
    "deterministic ones (evaluated). Numbers are IQMs over seeds, with the 95 % bootstrap "
    "interval; for all tasks, they are the mean of the tasks' IQMs.",
    "Minus Adam: success minus Adam's success. If the interval contains 0, these seeds do not "
    "separate the method from Adam; its lower end says how much the method may cost.",
)

Scores = dict[str, dict[str, np.ndarray]]
"""{column: {method: float [seeds]}} for one task."""


def table(artifact: Artifact, folders: Sequence[str | Path]) -> Table:
    """Return the table, with a row for each task and method, then one for all tasks."""
    found = by_task(artifact, folders)
    scores = {task: _scores(runs) for task, runs in found.items()}
    shown = artifact.studies[0].methods
    rows = [row for task, each in scores.items() for row in _rows(task, each, shown)]
    if len(scores) > 1:
        rows += _rows(_ALL, _together(scores), shown)
    return Table(
        artifact.title,
        (
            Column("Task", "task"),
            Column("Method", "method"),
            Column("Success", "success"),
            Column("Minus Adam", "minus_adam"),
            Column("Evaluated", "evaluated"),
            Column("Return", "return"),
        ),
        tuple(rows),
        (*single_tasks(artifact, found), *of_metric("success"), *_EXPLAINED),
        artifact.label,
    )


def _scores(runs: Runs) -> Scores:
    """Return the scores in the last bin that all seeds have."""
    found: Scores = {}
    for name, metric in _COLUMNS.items():
        curves = runs.curves(metric) if metric in runs.frame else {}
        kept = {method: usable(each) for method, each in curves.items()}
        found[name] = {m: each.values[:, -1] for m, each in kept.items() if each is not None}
    return found


def _together(scores: Mapping[str, Scores]) -> Scores:
    """Return scores [seeds, tasks] of the methods with equally many seeds in every task."""
    found: Scores = {}
    for name in _COLUMNS:
        of_tasks = [each[name] for each in scores.values()]
        methods = [m for m in of_tasks[0] if all(m in each for each in of_tasks)]
        stacked = {m: [each[m] for each in of_tasks] for m in methods}
        found[name] = {
            m: np.stack(each, axis=1) for m, each in stacked.items() if len({*map(len, each)}) == 1
        }
    return found


def _rows(task: str, scores: Scores, shown: Sequence[str]) -> list[tuple[Cell, ...]]:
    here = {method for each in scores.values() for method in each}
    rows = []
    for method in (*(m for m in shown if m in here), *sorted(here.difference(shown))):
        cells: dict[str, Cell] = {
            name: measured(summary.of_seeds(each[method]), "interval", _DECIMALS[name])
            if method in each
            else ABSENT
            for name, each in scores.items()
        }
        success, against = scores["success"], ABSENT
        if method != _BASE and method in success and _BASE in success:
            both = success[method], success[_BASE]
            against = measured(summary.difference(*both), "interval", _DECIMALS["success"])
        rows.append(
            (
                task,
                style.name(method),
                cells["success"],
                against,
                cells["evaluated"],
                cells["return"],
            )
        )
    return rows
