"""A method in three numbers: its average over training, its end, and its peak."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from continual_learning.analysis import statistics
from continual_learning.analysis.curves import Curves


class Estimate(NamedTuple):
    """A number and the ends of its interval: low ≤ value ≤ high, or both NaN where unknown."""

    value: float
    low: float
    high: float


class Summary(NamedTuple):
    """What tables say of a method.

    Attributes:
      average: over training.
      final: at the last point.
      peak: at the best point.
      peak_step: where that is.
      seeds: how many.
    """

    average: Estimate
    final: Estimate
    peak: Estimate
    peak_step: int
    seeds: int


def as_published(curves: Curves) -> Summary:
    """As the paper's scripts: statistics over seeds at each point, and then over points.

    The IQM is that of `iqm_as_published`. "Average" is the mean over points of the IQM, "Final" its
    last value, "Peak" its maximum (the first, if there are several). The interval reaches from the
    25th to the 75th percentile over seeds at that point, for "Average" with the mean over points of
    its parts below and above. The paper's numbers are of bins of 2M steps.

    Args:
      curves: whole ones; others are refused.
    """
    values = curves.whole().values
    centre = statistics.iqm_as_published(values)
    low, high = _around(centre, *statistics.iqr(values))
    peak = int(centre.argmax())
    return Summary(
        average=Estimate(float(centre.mean()), float(low.mean()), float(high.mean())),
        final=_at(centre, low, high, -1),
        peak=_at(centre, low, high, peak),
        peak_step=int(curves.steps[peak]),
        seeds=len(curves.seeds),
    )


def ours(curves: Curves, *, key: int = 0) -> Summary:
    """Statistics over points of each seed, and then over seeds: IQM with 95 % bootstrap interval.

    Each seed has its mean over points, its last value and its maximum; so the peak is one that
    seeds reach, each at its own time, and the interval says how far the IQM of other seeds might be
    off. `peak_step` is the (lower) median over seeds of where their maxima are. The interval of a
    single seed is NaN.

    Args:
      curves: whole ones; others are refused.
      key: of the bootstrap.
    """
    values = curves.whole().values
    of_seeds = np.stack([values.mean(axis=1), values[:, -1], values.max(axis=1)], axis=1)
    centre = statistics.iqm(of_seeds)
    low, high = _around(centre, *statistics.bootstrap(statistics.iqm, of_seeds, key=key))
    average, final, peak = (_at(centre, low, high, i) for i in range(3))
    steps = np.sort(curves.steps[values.argmax(axis=1)])
    peak_step = int(steps[(len(steps) - 1) // 2])
    return Summary(average, final, peak, peak_step, len(curves.seeds))


def of_seeds(scores: np.ndarray, *, key: int = 0) -> Estimate:
    """IQM over seeds with its 95 % bootstrap interval; of several tasks, the mean of their IQMs.

    Args:
      scores: [seeds], or [seeds, tasks].
      key: of the bootstrap.
    """
    return _estimate(lambda x: statistics.iqm(x).mean(), scores, key=key)


def difference(scores: np.ndarray, others: np.ndarray, *, key: int = 0) -> Estimate:
    """By how much `of_seeds` of the first is higher, with its 95 % bootstrap interval.

    Args:
      scores: [seeds], or [seeds, tasks].
      others: [other seeds], or [other seeds, tasks].
      key: of the bootstrap.
    """
    return _estimate(
        lambda x, y: statistics.iqm(x).mean() - statistics.iqm(y).mean(), scores, others, key=key
    )


def _estimate(statistic: Callable[..., Any], *samples: np.ndarray, key: int) -> Estimate:
    value = np.asarray(statistic(*samples))
    interval = statistics.bootstrap(statistic, *samples, key=key)
    low, high = _around(value, *map(np.asarray, interval))
    return Estimate(float(value), float(low), float(high))


def _around(centre: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The interval, wide enough for the estimate: it need not be, by rounding or odd draws."""
    return np.minimum(low, centre), np.maximum(high, centre)


def _at(value: np.ndarray, low: np.ndarray, high: np.ndarray, i: int) -> Estimate:
    return Estimate(float(value[i]), float(low[i]), float(high[i]))
