"""Curves on a coarser grid, as means over bins of steps."""

from __future__ import annotations

import numpy as np


def bin_ends(steps: np.ndarray, width: int, last: int | None = None) -> np.ndarray:
    """Return the ends of the bins (0, width], (width, 2·width], … in which the steps lie.

    Args:
      steps: [points], whole numbers; step 0, before training, is a bin of its own.
      width: number of steps of a bin.
      last: the step at which the run, and so its last bin, ends.

    Returns:
      [points], int64.
    """
    if width < 1:
        raise ValueError(f"A bin must be at least 1 step wide, got {width}.")
    ends = -(-np.asarray(steps, np.int64) // width) * width
    return ends if last is None else np.minimum(ends, max(last, 0))


def bin_means(ends: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the means of the values in each bin; NaN means not measured, and does not count.

    Args:
      ends: [points], the end of the bin of each point, ascending.
      values: [runs, points].

    Returns:
      The ends of the bins that have a point [bins], and the means [runs, bins]: NaN where a bin
      has no value.
    """
    where, first = np.unique(ends, return_index=True)
    if not len(where):
        return where, values[:, :0]
    measured = ~np.isnan(values)
    counts = np.add.reduceat(measured, first, axis=1, dtype=np.int64)
    sums = np.add.reduceat(np.where(measured, values, 0.0), first, axis=1)
    return where, np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
