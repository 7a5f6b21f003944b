"""Collapse of a policy: a deep and lasting fall of its return below an earlier peak."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class Collapse(NamedTuple):
    """A stretch in which a run is far below its earlier peak.

    Attributes:
      run: which run, from 0.
      start: the step after which all is below: the end of the bin before the first one below.
      end: the step up to which all is: the end of the last bin below.
      open: whether the run was still below when last measured.
      depth: how far below the peak the lowest return is.
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
    """The collapses of every run, in the order of runs and steps.

    A collapse is a stretch of at least `sustained` steps in which every return is at least `drop`
    below the running maximum before it. It ends with the first return above peak − drop, and only
    then can another one begin. A stretch that lasts until the end and is shorter than `sustained`
    is not a collapse yet.

    Args:
      steps: [points], ascending; each the end of the bin that its returns are the mean of. A bin
        begins where the one before ends, so that two bins of 2M steps last 4M.
      returns: [runs, points], or [points] of a single run. NaN: not measured; it neither begins nor
        ends a stretch.
      drop: how far below the peak, in the unit of the returns.
      sustained: for how many steps.
      relative: whether `drop` is a share (above 0, at most 1) of the height of the peak: above zero,
        or above the run's first return if that is negative. A run that never rose above its
        negative first return cannot collapse.
    """
    steps, returns = _checked(steps, returns, drop, sustained, relative)
    gap, below, known = _below(returns, drop, relative)
    first = _stretches(below)
    lasting = below & (steps[known] - steps[np.maximum(first - 1, 0)] >= sustained)
    # The last point of a stretch, where all that it is going to last is seen.
    final = below & ~np.pad(below[:, 1:], ((0, 0), (0, 1)))
    found = []
    for run, point in zip(*np.nonzero(lasting & final), strict=True):
        begin, end = first[run, point], known[run, point]
        depth = float(np.nanmax(gap[run, begin : end + 1]))
        still = bool(point == returns.shape[1] - 1)
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
    """Whether each run has a collapse, over or not: bool [runs]; arguments as of `collapses`."""
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
    """Whether a run is in a collapse, judged at each point by what was seen up to it.

    Arguments as of `collapses`.

    Returns:
      bool [runs, points]: True from the moment at which a stretch has lasted long enough until it
      ends.
    """
    steps, returns = _checked(steps, returns, drop, sustained, relative)
    _, below, known = _below(returns, drop, relative)
    first = _stretches(below)
    return below & (steps[known] - steps[np.maximum(first - 1, 0)] >= sustained)


def _below(
    returns: np.ndarray, drop: float, relative: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How far below the peak, whether that is far enough, and when it was last measured.

    Returns:
      Distance to the running maximum before, [runs, points]; whether the run is below peak − drop,
      where it is not measured as it was before; index of the last point that was measured.
    """
    runs, points = returns.shape
    measured = ~np.isnan(returns)
    peak = np.maximum.accumulate(np.where(measured, returns, -np.inf), axis=1)
    before = np.pad(peak, ((0, 0), (1, 0)), constant_values=-np.inf)[:, :points]
    gap = before - returns
    if relative:
        first = returns[np.arange(runs), measured.argmax(axis=1)][:, None]
        height = before - np.minimum(first, 0)
        far = (height > 0) & (gap >= drop * height)
    else:
        far = gap >= drop
    known = np.maximum.accumulate(np.where(measured, np.arange(points), 0), axis=1)
    return gap, np.take_along_axis(far, known, axis=1), known


def _stretches(below: np.ndarray) -> np.ndarray:
    """Index of the first point of the stretch that each point is in; only where it is in one."""
    begins = below & ~np.pad(below, ((0, 0), (1, 0)))[:, :-1]
    return np.maximum.accumulate(np.where(begins, np.arange(below.shape[1]), 0), axis=1)


def _checked(
    steps: ArrayLike, returns: ArrayLike, drop: float, sustained: int, relative: bool
) -> tuple[np.ndarray, np.ndarray]:
    steps = np.asarray(steps)
    returns = np.atleast_2d(np.asarray(returns, np.float64))
    if steps.ndim != 1 or returns.ndim != 2 or returns.shape[1] != len(steps):
        raise ValueError(
            f"steps must be [points] and returns [runs, points], got {list(steps.shape)} and "
            f"{list(returns.shape)}."
        )
    if (np.diff(steps) <= 0).any():
        raise ValueError("steps must be ascending, each once: sort the points, or bin them.")
    if np.isinf(returns).any():
        raise ValueError("returns must be finite, or NaN where nothing was measured; got infinity.")
    if not drop > 0 or (relative and drop > 1):
        valid = "a share above 0 and at most 1" if relative else "above 0"
        raise ValueError(f"drop must be {valid}, got {drop}.")
    if sustained < 0:
        raise ValueError(f"sustained must not be negative, got {sustained}.")
    return steps, returns
