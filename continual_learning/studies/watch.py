"""Watches a method for collapse while it runs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from continual_learning.diagnostics.binning import bin_ends, bin_means
from continual_learning.diagnostics.collapse import collapsing
from continual_learning.studies import build
from continual_learning.studies.early_stopping import CollapseRule
from continual_learning.studies.experiment import Experiment
from continual_learning.studies.store.store import Store

COLUMN = "collapse"
Columns = dict[str, np.ndarray]


class Watch:
    """A watch that adds a column to the rows of a method: 1 where a seed is in a collapse, else 0.

    It judges every row by the bins that are complete at its step, so the column agrees with
    `diagnostics.collapses` of the binned curve. Returns that are not finite are left out. A resumed
    study reads the earlier rows again from the parts, so nothing more has to be stored. If the
    experiment has no rule, rows stay as they are.

    Args:
      store: the store of the study.
      experiment: the experiment, which has the rule.
      method: the name of the method.
      headline: the column of the returns.
    """

    def __init__(self, store: Store, experiment: Experiment, method: str, headline: str):
        self.store, self.method, self.headline = store, method, headline
        self.rule, self.last = experiment.collapse, experiment.steps
        self.lanes = len(store.study["seeds"])
        self._forget()

    def __call__(self, chunk: int, columns: Columns) -> Columns:
        """Return the rows of a chunk with the column; chunks come in order, from any one on."""
        if self.rule is None:
            return columns
        if chunk != self.chunks:
            self._forget()
            for number in range(chunk):
                self._see(self.rule, self.store.read_part(self.method, number))
        now = self._see(self.rule, columns)
        return columns | {COLUMN: now.reshape(-1).astype(np.int8)}

    @property
    def ended(self) -> bool:
        """Whether so many seeds have collapsed that the method must end."""
        return self.rule is not None and self.rule.ends(int(self.collapsed.sum()), self.lanes)

    def _forget(self) -> None:
        self.chunks = 0
        self.steps = np.zeros(0, np.int64)
        self.returns = np.zeros((self.lanes, 0))
        self.collapsed = np.zeros(self.lanes, bool)

    def _see(self, rule: CollapseRule, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """Add the rows of the next chunk; return [lanes, rows], whether a row is in a collapse."""
        steps = np.asarray(columns["step"], np.int64).reshape(self.lanes, -1)[0]
        returns = np.asarray(columns[self.headline], np.float64).reshape(self.lanes, -1)
        returns = np.where(np.isfinite(returns), returns, np.nan)
        self.chunks += 1
        self.steps = np.concatenate([self.steps, steps])
        self.returns = np.concatenate([self.returns, returns], axis=1)
        ends, means = bin_means(bin_ends(self.steps, rule.bin, self.last), self.returns)
        seen = collapsing(
            ends,
            means,
            drop=rule.drop,
            sustained=rule.sustained,
            relative=rule.relative,
        )
        # A bin is complete at the first row at or after its end. The padding stands for no bin yet.
        complete = np.searchsorted(ends, steps, side="right")
        now = np.pad(seen, ((0, 0), (1, 0)))[:, complete]
        self.collapsed |= now.any(axis=1)
        return now


def ended_by_collapse(store: Store, experiment: Experiment, method: str) -> bool:
    """Return whether collapses ended a method before its last chunk."""
    rule, done = experiment.collapse, store.progress().get(method, 0)
    if rule is None or not rule.stops or done in (0, build.chunks(experiment)):
        return False
    lanes = len(store.study["seeds"])
    parts = (store.read_part(method, chunk)[COLUMN] for chunk in range(done))
    collapsed = np.concatenate([part.reshape(lanes, -1) for part in parts], axis=1).any(axis=1)
    return rule.ends(int(collapsed.sum()), lanes)
