"""Statistics of the episodes on the host: the columns of `statistics`, in NumPy."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from continual_learning.envs.host.protocol import HostTimestep

HostColumns = dict[str, np.ndarray]


class Tally:
    """Sums over the steps of all environments.

    Args:
      lanes: the number of seeds.
      metrics: the names of the environments' metrics.
      invalid: whether to count the steps that ended an episode because their numbers were not
        finite.
    """

    def __init__(self, lanes: int, metrics: Sequence[str], invalid: bool = False):
        self._ended = np.zeros(lanes, np.int32)
        self._invalid = np.zeros(lanes, np.int32) if invalid else None
        self._metrics = tuple(metrics)
        self._of_ended = {
            name: np.zeros(lanes) for name in ("episode_return", "episode_length", *metrics)
        }
        self._reward, self._steps = np.zeros(lanes), 0
        self._running = np.zeros(lanes)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        counted = ["episodes_ended"] + ["invalid_steps"] * (self._invalid is not None)
        return [*counted, *self._of_ended, "latest_return", "running_return", "reward"]

    def add(self, reached: HostTimestep) -> None:
        """Add a step of all environments."""
        self._reward += reached.reward.mean(axis=1)
        self._steps += 1
        if self._invalid is not None:
            self._invalid += reached.invalid.sum(axis=1, dtype=np.int32)
        ended = reached.ended
        self._running = np.where(ended, 0, reached.episode_return).mean(axis=1)
        if not ended.any():
            return
        self._ended += ended.sum(axis=1, dtype=np.int32)
        found = {
            "episode_return": reached.episode_return,
            "episode_length": reached.episode_length,
            **reached.metrics,
        }
        for name, total in self._of_ended.items():
            total += np.where(ended, found[name], 0).sum(axis=1)

    def columns(self, latest: np.ndarray) -> HostColumns:
        """Return statistics of the steps.

        Args:
          latest: [lanes, environments], the return of the last episode that ended; NaN if there is
            none.

        Returns:
          The columns of `statistics`, [lanes], and "invalid_steps" if these are counted. A metric
          of the environment is the mean of its values in the last steps of the episodes that ended,
          NaN if there are none.
        """
        with np.errstate(invalid="ignore"):  # 0 / 0 is NaN, as it should be
            means = {name: total / self._ended for name, total in self._of_ended.items()}
        floats = {
            **means,
            "latest_return": nanmean(latest),
            "running_return": self._running,
            "reward": self._reward / self._steps,
        }
        return {
            "episodes_ended": self._ended,
            **({} if self._invalid is None else {"invalid_steps": self._invalid}),
            **{name: np.asarray(x, np.float32) for name, x in floats.items()},
        }


def nanmean(values: np.ndarray) -> np.ndarray:
    """Average [lanes, n] over the numbers that are not NaN; [lanes], NaN where all are NaN."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy warns if all numbers are NaN
        return np.nanmean(values, axis=1)


def in_last_row(values: HostColumns, rows: HostColumns) -> HostColumns:
    """Return columns [lanes, rows] with the values [lanes] in the last row.

    The other rows are NaN, or 0 if the values are whole numbers.
    """
    columns = {}
    for name, value in values.items():
        blank = np.nan if value.dtype.kind == "f" else 0
        columns[name] = np.full(rows["step"].shape, blank, value.dtype)
        columns[name][:, -1] = value
    return columns
