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
    """The numbers that tables show for a method.

    Attributes:
      average: the mean over training.
      final: the value at the last point.
      peak: the value at the best point.
      peak_step: the step of the best point.
      seeds: the number of seeds.
    """

    average: Estimate
    final: Estimate
    peak: Estimate
    peak_step: int
    seeds: int


def as_published(curves: Curves) -> Summary:
    """Summarize as the paper's scripts do: over seeds at each point first, then over points.

    The IQM is `iqm_as_published`. "Average" is the mean of the IQM over points, "Final" its last
    value, and "Peak" its maximum (the first one, if there are several). The interval reaches from
    the 25th to the 75th percentile over seeds at that point; for "Average", both ends are means
    over points. The paper's numbers come from bins of 2M steps.

    Args:
      curves: complete curves; others are refused.
    """
    values = curves.whole().values
    center = statistics.iqm_as_published(values)
    low, high = _around(center, *statistics.iqr(values))
    peak = int(center.argmax())
    return Summary(
        average=Estimate(float(center.mean()), float(low.mean()), float(high.mean())),
        final=_at(center, low, high, -1),
        peak=_at(center, low, high, peak),
        peak_step=int(curves.steps[peak]),
        seeds=len(curves.seeds),
    )


def ours(curves: Curves, *, key: int = 0) -> Summary:
    """Summarize each seed over points first, then seeds by their IQM and 95 % bootstrap interval.

    Each seed contributes its mean over points, its last value and its maximum. The peak is thus a
    value that seeds reach at different times, and the interval says how much the IQM might differ
    with other seeds. `peak_step` is the (lower) median over seeds of the steps of their maxima. The
    interval of a single seed is NaN.

    Args:
      curves: complete curves; others are refused.
      key: the seed of the bootstrap.
    """
    values = curves.whole().values
    of_seeds = np.stack([values.mean(axis=1), values[:, -1], values.max(axis=1)], axis=1)
    center = statistics.iqm(of_seeds)
    low, high = _around(center, *statistics.bootstrap(statistics.iqm, of_seeds, key=key))
    average, final, peak = (_at(center, low, high, i) for i in range(3))
    steps = np.sort(curves.steps[values.argmax(axis=1)])
    peak_step = int(steps[(len(steps) - 1) // 2])
    return Summary(average, final, peak, peak_step, len(curves.seeds))


def of_seeds(scores: np.ndarray, *, key: int = 0) -> Estimate:
    """Return the IQM over seeds, averaged over tasks, with its 95 % bootstrap interval.

    Args:
      scores: [seeds], or [seeds, tasks].
      key: the seed of the bootstrap.
    """
    return _estimate(lambda x: statistics.iqm(x).mean(), scores, key=key)


def difference(scores: np.ndarray, others: np.ndarray, *, key: int = 0) -> Estimate:
    """Return how much higher `of_seeds` of the first is, with its 95 % bootstrap interval.

    Args:
      scores: [seeds], or [seeds, tasks].
      others: [other seeds], or [other seeds, tasks].
      key: the seed of the bootstrap.
    """
    return _estimate(
        lambda x, y: statistics.iqm(x).mean() - statistics.iqm(y).mean(), scores, others, key=key
    )


def _estimate(statistic: Callable[..., Any], *samples: np.ndarray, key: int) -> Estimate:
    value = np.asarray(statistic(*samples))
    interval = statistics.bootstrap(statistic, *samples, key=key)
    low, high = _around(value, *map(np.asarray, interval))
    return Estimate(float(value), float(low), float(high))


def _around(center: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the interval, widened to hold the estimate despite rounding or unlucky draws."""
    return np.minimum(low, center), np.maximum(high, center)


def _at(value: np.ndarray, low: np.ndarray, high: np.ndarray, i: int) -> Estimate:
    return Estimate(float(value[i]), float(low[i]), float(high[i]))
