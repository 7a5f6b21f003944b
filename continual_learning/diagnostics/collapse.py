"""Collapse of a policy: a deep and lasting fall of its return below an earlier peak."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class Collapse(NamedTuple):
    """A stretch in which a run is far below its earlier peak.

    Attributes:
      run: the number of the run, from 0.
      start: the step at which the stretch begins, the end of the bin before its first one.
      end: the step at which the stretch ends, the end of its last bin.
      open: whether the run was still below the peak when it was last measured.
      depth: the distance of the lowest return from the peak.
    """

    run: int
    start: int
    end: int
    open: bool
    depth: float


def collapses(
    steps: ArrayLike,
    returns: ArrayLike,
    *,
    drop: float = 8000.0,
    sustained: int = 4_000_000,
    relative: bool = False,
) -> list[Collapse]:
    """Return the collapses of every run, in the order of runs and steps.

    A collapse is a stretch of at least `sustained` steps in which every return is at least `drop`
    below the running maximum before it. It ends with the first return above peak − drop, and only
    then can another one begin. A stretch that lasts until the end and is shorter than `sustained`
    is not a collapse yet.

    Args:
      steps: [points], ascending, the ends of the bins over which the returns are means. A bin
        begins where the one before ends, so that two bins of 2M steps last 4M.
      returns: [runs, points], or [points] of a single run. NaN means not measured; it neither
        begins nor ends a stretch.
      drop: the least distance from the peak, in the unit of the returns.
      sustained: the least number of steps.
      relative: whether `drop` is a share (above 0, at most 1) of the peak's height: its height
        above zero, or above the run's first return if that is negative. A run that never rose above
        its negative first return cannot collapse.
    """
    steps, returns = _checked(steps, returns, drop, sustained, relative)
    gap, now, first, known = _watched(steps, returns, drop, sustained, relative)
    last = now & ~np.pad(now[:, 1:], ((0, 0), (0, 1)))
    found = []
    for run, point in zip(*np.nonzero(last), strict=True):
        begin, end = first[run, point], known[run, point]
        depth = float(np.nanmax(gap[run, begin : end + 1]))
        still = bool(point == len(steps) - 1)
        found.append(Collapse(int(run), int(steps[begin - 1]), int(steps[end]), still, depth))
    return found


def collapsed(
    steps: ArrayLike,
    returns: ArrayLike,
    *,
    drop: float = 8000.0,
    sustained: int = 4_000_000,
    relative: bool = False,
) -> np.ndarray:
    """Return whether each run has a collapse, over or not, as bool [runs].

    The arguments are those of `collapses`.
    """
    now = collapsing(steps, returns, drop=drop, sustained=sustained, relative=relative)
    return np.asarray(now.any(axis=1))


def collapsing(
    steps: ArrayLike,
    returns: ArrayLike,
    *,
    drop: float = 8000.0,
    sustained: int = 4_000_000,
    relative: bool = False,
) -> np.ndarray:
    """Return whether a run is in a collapse, judged at each point by the returns up to it.

    The arguments are those of `collapses`.

    Returns:
      bool [runs, points]: True from the moment at which a stretch has lasted long enough until it
      ends.
    """
    steps, returns = _checked(steps, returns, drop, sustained, relative)
    return _watched(steps, returns, drop, sustained, relative)[1]


def _watched(
    steps: np.ndarray, returns: np.ndarray, drop: float, sustained: int, relative: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Follow the runs point by point, as `collapses` explains.

    Returns:
      Four arrays [runs, points]: the distance to the running maximum before; whether the run is in
      a collapse; the first point of the stretch in which the point lies, if it lies in one; the
      last point that was measured.
    """
    runs, points = returns.shape
    number, measured = np.arange(points), ~np.isnan(returns)
    peak = np.maximum.accumulate(np.where(measured, returns, -np.inf), axis=1)
    before = np.pad(peak, ((0, 0), (1, 0)), constant_values=-np.inf)[:, :points]
    known = np.maximum.accumulate(np.where(measured, number, 0), axis=1)
    gap = before - returns
    if relative and points:
        first = returns[np.arange(runs), measured.argmax(axis=1)][:, None]
        height = before - np.minimum(first, 0)
        far = (height > 0) & (gap >= drop * height)
    else:
        far = gap >= drop
    below = np.take_along_axis(far, known, axis=1)
    begins = below & ~np.pad(below, ((0, 0), (1, 0)))[:, :points]
    first = np.maximum.accumulate(np.where(begins, number, 0), axis=1)
    # A bin begins where the one before ends. No stretch begins at the first point, which has no
    # peak before it.
    lasted = steps[known] - steps[first - 1]
    return gap, below & (lasted >= sustained), first, known


def _checked(
    steps: ArrayLike, returns: ArrayLike, drop: float, sustained: int, relative: bool
) -> tuple[np.ndarray, np.ndarray]:
    steps = np.asarray(steps)
    if steps.dtype.kind not in "iu" and steps.size:
        raise ValueError(f"steps must be whole numbers, got {steps.dtype}.")
    steps = steps.astype(np.int64)
    returns = np.atleast_2d(np.asarray(returns, np.float64))
    if steps.ndim != 1 or returns.ndim != 2 or returns.shape[1] != len(steps):
        raise ValueError(
            f"steps must be [points] and returns [runs, points], got {list(steps.shape)} and "
            f"{list(returns.shape)}."
        )
    if (np.diff(steps) <= 0).any():
        raise ValueError("steps must be strictly ascending: sort the points, or bin them.")
    if np.isinf(returns).any():
        raise ValueError("returns must be finite, or NaN where nothing was measured; got infinity.")
    if not drop > 0 or (relative and drop > 1):
        valid = "a share above 0 and at most 1" if relative else "above 0"
        raise ValueError(f"drop must be {valid}, got {drop}.")
    if sustained < 0:
        raise ValueError(f"sustained must not be negative, got {sustained}.")
    return steps, returns
