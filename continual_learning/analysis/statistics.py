"""Statistics over runs: interquartile means, bootstrap intervals, profiles, improvement.

Scores are arrays [runs, tasks] or [runs, points]: axis 0 is runs. A statistic that depends on a NaN
is NaN: no mean leaves a value out silently. Agarwal et al. (2021), "Deep Reinforcement Learning at
the Edge of the Statistical Precipice", explain these statistics; rliable is their code.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

Axis = int | tuple[int, ...] | None


class Interval(NamedTuple):
    """The ends of a confidence interval: numbers, or arrays if the statistic is an array."""

    low: Any
    high: Any


def iqm(x: ArrayLike, axis: Axis = 0) -> Any:
    """Return the interquartile mean, without the lowest and the highest quarter of the values.

    Of n values it leaves out ⌊n/4⌋ at each end (it keeps 9 of 15), as `scipy.stats.trim_mean(x,
    0.25)` and rliable do. Rliable's IQM of [runs, tasks] is `iqm(x, axis=None)`. Of fewer than four
    values it is the mean.
    """
    values = np.sort(_flat(x, axis), axis=0)  # NaN last
    cut = len(values) // 4
    return _unless_missing(values[-1], values[cut : len(values) - cut].mean(axis=0))


def iqm_as_published(x: ArrayLike, axis: Axis = 0) -> Any:
    """Return the mean from the 25th to the 75th percentile, as the paper's scripts compute it.

    The percentiles are interpolated, so it keeps only 7 of 15 values where `iqm` keeps 9. Of fewer
    than four values it is the mean.
    """
    values = _flat(x, axis)
    if len(values) < 4:
        return mean(values)
    low, high = np.percentile(values, [25, 75], axis=0)
    kept = (values >= low) & (values <= high) | np.isnan(low)
    return _unless_missing(values.sum(axis=0), values.mean(axis=0, where=kept))


def iqr(x: ArrayLike, axis: Axis = 0) -> tuple[Any, Any]:
    """Return the 25th and the 75th percentile, interpolated as NumPy does by default."""
    low, high = np.percentile(_flat(x, axis), [25, 75], axis=0)
    return low[()], high[()]


def mean(x: ArrayLike, axis: Axis = 0) -> Any:
    """Return the mean."""
    return _flat(x, axis).mean(axis=0)


def median(x: ArrayLike, axis: Axis = 0) -> Any:
    """Return the median; rliable's, over tasks of the mean over runs, is `median(mean(x))`."""
    return np.median(_flat(x, axis), axis=0)


def optimality_gap(x: ArrayLike, gamma: float = 1.0, axis: Axis = None) -> Any:
    """Return how far scores are below `gamma` on average; higher ones count as `gamma`."""
    return gamma - np.minimum(_flat(x, axis), gamma).mean(axis=0)


def performance_profile(scores: ArrayLike, thresholds: ArrayLike) -> np.ndarray:
    """Return the share of runs and tasks with a score above each threshold.

    Args:
      scores: [runs, tasks], or [runs].
      thresholds: [thresholds].

    Returns:
      The shares [thresholds], which Agarwal et al. (2021) call the score distribution.
    """
    ordered, thresholds = np.sort(_flat(scores, None)), np.asarray(thresholds, np.float64)
    if np.isnan(thresholds).any():
        raise ValueError("thresholds must be numbers, got NaN.")
    if np.isnan(ordered[-1]):
        return np.full(thresholds.shape, np.nan)
    return 1 - np.searchsorted(ordered, thresholds, side="right") / len(ordered)


def probability_of_improvement(x: ArrayLike, y: ArrayLike) -> float:
    """Return how likely a run of `x` beats one of `y`: mean over tasks, ties count half.

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
    """Return the percentile interval of a statistic by rliable's stratified bootstrap.

    Every repetition draws the runs of each task with replacement, independently of other tasks and
    samples. Tasks must therefore be independent runs. The points of one curve are not: reduce them
    to one number for each run first, such as their mean.

    Args:
      statistic: a function of as many arrays as there are samples, of their shapes; it returns a
        number or an array.
      *samples: arrays [runs], [runs, tasks] or [runs, tasks, …].
      repeats: the number of repetitions.
      confidence: the share of the repetitions that the interval contains.
      key: the seed of the draws; the same key gives the same interval.

    Returns:
      The interval, in the shape of the statistic. It is NaN where the statistic is NaN, and for a
      single run, which tells nothing about others.
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
    """Return the values with the axes to reduce merged into the first: [reduced, …]."""
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
    """Return the values, with NaN wherever the marker is NaN."""
    return np.where(np.isnan(marker), np.nan, values)[()]
