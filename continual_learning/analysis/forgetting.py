"""What is left of a task when others were learned after it, from evaluations on all of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from continual_learning.analysis.adaptation import adaptation
from continual_learning.analysis.curves import Curves


class Forgetting(NamedTuple):
    """Measures of every seed on every task that others came after; NaN where one is missing.

    Attributes:
      tasks: names of the tasks.
      learned: [seeds, tasks], the value when the task was last trained on, at its end.
      kept: [seeds, tasks], the value at the end of all.
    """

    tasks: tuple[str, ...]
    learned: np.ndarray
    kept: np.ndarray

    @property
    def forgetting(self) -> np.ndarray:
        """[seeds, tasks], what was lost; negative if later tasks helped."""
        return self.learned - self.kept

    @property
    def retention(self) -> np.ndarray:
        """[seeds], what was kept of all tasks, as a share of what was learned of them.

        A task counts by what was learned of it, so that one that never was says nothing. NaN where
        nothing was learned.
        """
        learned, kept = self.learned.sum(axis=1), self.kept.sum(axis=1)
        return np.divide(kept, learned, out=np.full_like(kept, np.nan), where=learned > 0)


def forgetting(evaluations: Mapping[str, Curves], order: Sequence[str]) -> Forgetting:
    """Compares the end of each task with the end of all.

    A task that is trained on several times counts from the last time, and one that is trained on
    last not at all: nothing came after it.

    Args:
      evaluations: {name of a task: the evaluations on it, rows as they are}, for all of `order`.
      order: the name of each task in turn, as far as they are to be counted. All seeds should have
        come to the end of the last of them.
    """
    last = {name: i for i, name in enumerate(order) if name != order[-1]}
    ends = {name: adaptation(evaluations[name]).end for name in last}  # [seeds, tasks] each
    seeds = len(next(iter(evaluations.values())).seeds)
    empty = np.empty((seeds, 0))
    learned = [ends[name][:, i : i + 1] for name, i in last.items()]
    kept = [end[:, len(order) - 1 : len(order)] for end in ends.values()]
    return Forgetting(tuple(last), np.hstack([empty, *learned]), np.hstack([empty, *kept]))


def column(task: str, metric: str = "") -> str:
    """The column of the evaluations on a task: "eval_pick_place_success" of pick-place."""
    name = re.sub(r"\W", "_", f"eval_{task}")
    return f"{name}_{metric}" if metric else name
