"""Statistics over runs: interquartile means, bootstrap intervals, profiles, improvement.

Scores are arrays [runs, tasks] or [runs, points]: axis 0 is runs. Where a score is NaN, so is what
depends on it; nothing is left out of a mean in silence. Agarwal et al. (2021), "Deep Reinforcement
Learning at the Edge of the Statistical Precipice", say what these are for; rliable is their code.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

Axis = int | tuple[int, ...] | None


class Interval(NamedTuple):
    """The ends of a confidence interval: numbers, or arrays where the statistic is one."""

    low: Any
    high: Any


def iqm(x: ArrayLike, axis: Axis = 0) -> Any:
    """Interquartile mean: without the lowest and the highest quarter of the values.

    Of n values ⌊n/4⌋ are left out at each end (9 of 15 are kept), as by
    `scipy.stats.trim_mean(x, 0.25)` and rliable, whose IQM of [runs, tasks] is `iqm(x, axis=None)`.
    Of fewer than four values it is the mean.
    """
    values = np.sort(_flat(x, axis), axis=0)  # NaN last
    cut = len(values) // 4
    return _unless_missing(values[-1], values[cut : len(values) - cut].mean(axis=0))


def iqm_as_published(x: ArrayLike, axis: Axis = 0) -> Any:
    """Mean of the values from the 25th to the 75th percentile, as the paper's scripts compute it.

    The percentiles are interpolated, so that only 7 of 15 values are kept where `iqm` keeps 9. Of
    fewer than four values it is the mean.
    """
    values = _flat(x, axis)
    if len(values) < 4:
        return mean(values)
    low, high = np.percentile(values, [25, 75], axis=0)
    kept = (values >= low) & (values <= high) | np.isnan(low)
    return _unless_missing(values.sum(axis=0), values.mean(axis=0, where=kept))


def iqr(x: ArrayLike, axis: Axis = 0) -> tuple[Any, Any]:
    """The 25th and the 75th percentile, interpolated as NumPy does."""
    low, high = np.percentile(_flat(x, axis), [25, 75], axis=0)
    return low[()], high[()]


def mean(x: ArrayLike, axis: Axis = 0) -> Any:
    """Mean."""
    return _flat(x, axis).mean(axis=0)


def median(x: ArrayLike, axis: Axis = 0) -> Any:
    """Median. That of rliable, over tasks of the mean over runs, is `median(mean(x))`."""
    return np.median(_flat(x, axis), axis=0)


def optimality_gap(x: ArrayLike, gamma: float = 1.0, axis: Axis = None) -> Any:
    """By how much scores are short of `gamma` on average; those above it count as `gamma`."""
    return gamma - np.minimum(_flat(x, axis), gamma).mean(axis=0)


def performance_profile(scores: ArrayLike, thresholds: ArrayLike) -> np.ndarray:
    """The share of runs and tasks whose score is above each threshold (the score distribution).

    Args:
      scores: [runs, tasks], or [runs].
      thresholds: [thresholds].

    Returns:
      [thresholds].
    """
    ordered, thresholds = np.sort(_flat(scores, None)), np.asarray(thresholds, np.float64)
    if np.isnan(thresholds).any():
        raise ValueError("thresholds must be numbers, got NaN.")
    if np.isnan(ordered[-1]):
        return np.full(thresholds.shape, np.nan)
    return 1 - np.searchsorted(ordered, thresholds, side="right") / len(ordered)


def probability_of_improvement(x: ArrayLike, y: ArrayLike) -> float:
    """How likely a run of `x` is better than one of `y`: mean over tasks, ties count half.

    Args:
      x: [runs, tasks], or [runs] of a single task.
      y: [other runs, tasks], or [other runs].
    """
    x, y = (_by_task(name, scores) for name, scores in (("x", x), ("y", y)))
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"x and y must have the same tasks, got {x.shape[1]} and {y.shape[1]}.")
    if np.isnan(x).any() or np.isnan(y).any():
        return float("nan")
    better, equal = x[:, None] > y[None], x[:, None] == y[None]
    return float((better + 0.5 * equal).mean())


def bootstrap(
    statistic: Callable[..., Any],
    *samples: ArrayLike,
    repeats: int = 2000,
    confidence: float = 0.95,
    key: int = 0,
) -> Interval:
    """Percentile interval of a statistic by the stratified bootstrap, as rliable's.

    In every repetition the runs of each task are drawn anew with replacement, independently of
    other tasks and samples. So tasks must be runs of their own: the points of one curve are not,
    and a statistic that puts them together needs one number a run first, such as their mean.

    Args:
      statistic: of as many arrays as there are samples, of their shapes; a number or an array.
      *samples: each [runs], [runs, tasks], or [runs, tasks, …].
      repeats: how many repetitions.
      confidence: share of the repetitions that are within.
      key: of the draws: the same key, the same interval.

    Returns:
      The interval, in the shape of the statistic. NaN where the statistic is NaN, and of a single
      run, which says nothing of others.
    """
    arrays = [_finite(sample) for sample in samples]
    if not arrays or any(array.ndim == 0 or array.size == 0 for array in arrays):
        shapes = [list(array.shape) for array in arrays]
        raise ValueError(f"Samples must be [runs, …] and not empty, got shapes {shapes}.")
    if repeats < 1 or not 0 < confidence < 1:
        raise ValueError(
            "repeats must be at least 1 and confidence between 0 and 1, "
            f"got {repeats} and {confidence}."
        )
    point = np.asarray(statistic(*arrays), np.float64)
    rng = np.random.default_rng(key)
    drawn = np.empty((repeats, *point.shape))
    for i in range(repeats):
        picks = [rng.integers(len(array), size=array.shape) for array in arrays]
        drawn[i] = statistic(*map(_taken, arrays, picks))
    tail = 50 * (1 - confidence)
    ends = np.percentile(drawn, [tail, 100 - tail], axis=0)
    unknown = np.isnan(point) | (min(map(len, arrays)) == 1)
    low, high = np.where(unknown, np.nan, ends)
    return Interval(low[()], high[()])


def _finite(x: ArrayLike) -> np.ndarray:
    values = np.asarray(x, np.float64)
    if np.isinf(values).any():
        raise ValueError(
            "Scores must be finite, or NaN where they are missing; got infinity: a run diverged."
        )
    return values


def _taken(values: np.ndarray, picks: np.ndarray) -> np.ndarray:
    return np.take_along_axis(values, picks, axis=0)


def _flat(x: ArrayLike, axis: Axis) -> np.ndarray:
    """The values with the axes to reduce as one, the first."""
    values = np.atleast_1d(_finite(x))
    axes = range(values.ndim) if axis is None else np.atleast_1d(axis)
    values = np.moveaxis(values, axes, range(len(axes)))
    reduced, rest = values.shape[: len(axes)], values.shape[len(axes) :]
    if not math.prod(reduced):
        raise ValueError("There are no scores: at least one run is needed.")
    return values.reshape(math.prod(reduced), *rest)


def _by_task(name: str, scores: ArrayLike) -> np.ndarray:
    values = _finite(scores)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(
            f"{name} must be [runs, tasks] and not empty, got {list(np.shape(scores))}."
        )
    return values


def _unless_missing(marker: np.ndarray, values: np.ndarray) -> Any:
    """The values, NaN where the marker is."""
    return np.where(np.isnan(marker), np.nan, values)[()]
