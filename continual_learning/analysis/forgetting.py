"""How much of a task is left after later ones were learned, from evaluations on all tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from continual_learning.analysis.adaptation import adaptation
from continual_learning.analysis.curves import Curves


class Forgetting(NamedTuple):
    """Measures of every seed on every task that others followed; NaN where a value is missing.

    Attributes:
      tasks: names of the tasks.
      learned: [seeds, tasks], the value at the end of the last training on the task.
      kept: [seeds, tasks], the value at the end of all tasks.
    """

    tasks: tuple[str, ...]
    learned: np.ndarray
    kept: np.ndarray

    @property
    def forgetting(self) -> np.ndarray:
        """The loss [seeds, tasks]; negative if later tasks helped."""
        return self.learned - self.kept

    @property
    def retention(self) -> np.ndarray:
        """The sum of `kept` over tasks as a share of the sum of `learned` [seeds].

        A task weighs as much as was learned on it, so a task that was never learned has no
        influence. NaN where nothing was learned.
        """
        learned, kept = self.learned.sum(axis=1), self.kept.sum(axis=1)
        return np.divide(kept, learned, out=np.full_like(kept, np.nan), where=learned > 0)


def forgetting(evaluations: Mapping[str, Curves], order: Sequence[str]) -> Forgetting:
    """Compare the value at the end of each task with the value at the end of all tasks.

    A task that is trained on several times counts from the last time. The task that is trained on
    last does not count, since nothing follows it.

    Args:
      evaluations: {name of a task: the unbinned evaluations on it}, for all of `order`.
      order: the names of the tasks in turn, up to the last one that counts. All seeds should have
        reached its end.
    """
    last = {name: i for i, name in enumerate(order) if name != order[-1]}
    ends = {name: adaptation(evaluations[name]).end for name in last}  # [seeds, tasks] each
    seeds = len(next(iter(evaluations.values())).seeds)
    empty = np.empty((seeds, 0))
    learned = [ends[name][:, i : i + 1] for name, i in last.items()]
    kept = [end[:, len(order) - 1 : len(order)] for end in ends.values()]
    return Forgetting(tuple(last), np.hstack([empty, *learned]), np.hstack([empty, *kept]))


def column(task: str, metric: str = "") -> str:
    """Return the column of evaluations on a task: "eval_pick_place_success" for pick-place."""
    name = re.sub(r"\W", "_", f"eval_{task}")
    return f"{name}_{metric}" if metric else name
