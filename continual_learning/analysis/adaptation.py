"""How a method adapts to each task: its last value, its speed, and the cost of a switch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from continual_learning.analysis.curves import Curves


class Adaptation(NamedTuple):
    """Measures of every seed in every task; NaN where there is nothing to measure.

    Attributes:
      tasks: int64 [tasks], the numbers of the tasks.
      end: [seeds, tasks], the value at the task's last point.
      area: [seeds, tasks], the area under the task's curve, divided by its length: the mean of the
        values that were measured in the task.
      recovery_steps: [seeds, tasks], steps from the beginning of the task to the first value that
        is at least the highest one before the task; NaN if there is none, and in the first task.
      drop: [seeds, tasks], the last value before the task minus the first one in it; negative if
        the value rose at the switch, NaN in the first task.
    """

    tasks: np.ndarray
    end: np.ndarray
    area: np.ndarray
    recovery_steps: np.ndarray
    drop: np.ndarray


def adaptation(curves: Curves) -> Adaptation:
    """Return measures of every seed in every task.

    If a seed lacks the last point of a task, all its measures of this task are NaN. The task that
    an unfinished run has not completed is left out. NaN within a task is skipped: the last value
    before a task and the first one in it are values that were measured.

    A bin that begins in one task and ends in the next counts for the next and blurs the drop, so
    use rows as they are, or bins whose width divides the length of a task.

    Args:
      curves: any curves, complete or not.
    """
    first = np.flatnonzero(np.diff(curves.tasks, prepend=curves.tasks[:1] - 1))
    last = np.append(first, len(curves.steps))[1:]
    if curves.expected is not None and len(first) and curves.steps[-1] < curves.expected:
        first, last = first[:-1], last[:-1]
    shape = (len(curves.seeds), len(first))
    end, area, recovery, drop = (np.full(shape, np.nan) for _ in range(4))
    lane = np.arange(len(curves.seeds))
    for i, (begin, stop) in enumerate(zip(first, last, strict=True)):
        within, before = curves.values[:, begin:stop], curves.values[:, :begin]
        measured = ~np.isnan(within)
        done = measured[:, -1]
        end[:, i] = within[:, -1]
        total, count = np.where(measured, within, 0.0).sum(axis=1), measured.sum(axis=1)
        area[done, i] = total[done] / count[done]
        seen = ~np.isnan(before)
        ok = done & seen.any(axis=1)
        if not ok.any():
            continue
        latest = before[lane, before.shape[1] - 1 - seen[:, ::-1].argmax(axis=1)]
        drop[ok, i] = (latest - within[lane, measured.argmax(axis=1)])[ok]
        peak = np.where(seen, before, -np.inf).max(axis=1)
        back = measured & (within >= peak[:, None])
        steps = curves.steps[begin:stop][back.argmax(axis=1)] - curves.steps[begin - 1]
        again = ok & back.any(axis=1)
        recovery[again, i] = steps[again]
    return Adaptation(curves.tasks[first], end, area, recovery, drop)
