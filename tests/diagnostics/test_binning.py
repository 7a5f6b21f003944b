"""Means over bins of steps."""

import numpy as np
import pytest

from continual_learning.diagnostics.binning import bin_ends, bin_means

NAN = np.nan


def test_the_end_of_a_bin_is_in_it():
    steps = np.array([0, 1, 9, 10, 11, 20, 21], np.int32)
    ends = bin_ends(steps, 10)
    assert ends.tolist() == [0, 10, 10, 10, 20, 20, 30] and ends.dtype == np.int64
    assert bin_ends(steps, 10, 25).tolist() == [0, 10, 10, 10, 20, 20, 25]
    assert bin_ends(np.array([2**31 - 1], np.int32), 2**31).tolist() == [2**31]
    with pytest.raises(ValueError, match="at least 1 step wide, got 0"):
        bin_ends(steps, 0)


def test_means_are_over_what_was_measured():
    ends = np.array([10, 10, 10, 30, 30, 40])
    values = np.array([[1, 2, 6, NAN, 4, NAN], [NAN, NAN, NAN, 0, 0, 5]])
    where, means = bin_means(ends, values)
    assert where.tolist() == [10, 30, 40]
    np.testing.assert_array_equal(means, [[3, 4, NAN], [NAN, 0, 5]])


def test_nothing():
    where, means = bin_means(np.zeros(0, np.int64), np.zeros((3, 0)))
    assert where.shape == (0,) and means.shape == (3, 0)
