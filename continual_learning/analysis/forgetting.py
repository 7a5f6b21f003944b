"""What is left of earlier tasks: from evaluations on every task met so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from continual_learning.analysis.curves import Curves


class Forgetting(NamedTuple):
    """Measures of every seed on every task, [seeds, tasks]; NaN where there is nothing to measure.

    Attributes:
      learnt: the last evaluation on the task before the next one began.
      final: the last evaluation on it of all.
      forgetting: the highest evaluation on it minus the final one (Chaudhry et al., 2018); NaN for
        the task that is trained on last, which there was no time to forget.
      retention: final / learnt, the share that is left, for measures that are 0 at worst, such as
        success; NaN for the task that is trained on last, and where nothing was learnt.
    """

    learnt: np.ndarray
    final: np.ndarray
    forgetting: np.ndarray
    retention: np.ndarray


def forgetting(tasks: Sequence[Curves]) -> Forgetting:
    """Measures of one method.

    A task is learnt from its first evaluation on until the next task begins. If it is trained on
    again later, that counts as remembering.

    Args:
      tasks: curves of the same method and points, each of the evaluations on one task
        (`eval_NAME`, or `eval_NAME_success`), as they are, without bins.
    """
    if not tasks:
        raise ValueError("forgetting needs the curves of at least one task.")
    first = tasks[0]
    for each in tasks:
        if not np.array_equal(each.steps, first.steps) or each.values.shape != first.values.shape:
            raise ValueError(
                f"forgetting needs curves of the same seeds and steps; {each.metric} has others "
                f"than {first.metric}."
            )
    found = [_of_task(each) for each in tasks]
    return Forgetting(*(np.stack(columns, axis=1) for columns in zip(*found, strict=True)))


def _of_task(curves: Curves) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The four measures, each [seeds]."""
    none = np.full(len(curves.seeds), np.nan)
    measured = ~np.isnan(curves.values)
    if not measured.any():
        return none, none, none, none
    own = curves.tasks[measured.any(axis=0).argmax()]
    learnt = _last(curves.values[:, curves.tasks == own])
    final = _last(curves.values)
    if own == curves.tasks[-1]:
        return learnt, final, none, none
    best = np.where(measured, curves.values, -np.inf).max(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        retention = np.where(learnt > 0, final / learnt, np.nan)
    return learnt, final, np.where(np.isfinite(best), best - final, np.nan), retention


def _last(values: np.ndarray) -> np.ndarray:
    """[seeds, points] -> [seeds], the last value that is there, or NaN."""
    measured = ~np.isnan(values)
    at = values.shape[1] - 1 - measured[:, ::-1].argmax(axis=1)
    found = values[np.arange(len(values)), at]
    return np.where(measured.any(axis=1), found, np.nan)
