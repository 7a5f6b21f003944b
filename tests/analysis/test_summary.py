"""Average, Final and Peak, as published and ours, by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from continual_learning.analysis.curves import Curves, CurvesError
from continual_learning.analysis.summary import Estimate, as_published, difference, of_seeds, ours


def made(values, **fields):
    values = np.asarray(values, np.float64)
    seeds, points = map(np.arange, values.shape)
    steps = 2_000_000 * (points + 1)
    return Curves("cpr", "episode_return", seeds, steps, points * 0, values, **fields)


FIVE = made(
    [
        [0, 10, 50],
        [1, 20, 40],
        [2, 60, 30],
        [3, 70, 20],
        [9, 80, 10],
    ]
)
"""Over the seeds: quartiles 1 and 3, 20 and 70, 20 and 40; IQMs (of three of five) 2, 50 and 30."""


def test_as_published_by_hand():
    found = as_published(FIVE)
    assert found.average == pytest.approx((82 / 3, 41 / 3, 113 / 3))
    # The errors of the paper's tables: q75 − IQM and IQM − q25, averaged over points.
    above, below = found.average.high - found.average.value, found.average.value - found.average.low
    assert (above, below) == pytest.approx(((1 + 20 + 10) / 3, (1 + 30 + 10) / 3))
    assert found.final == pytest.approx((30, 20, 40))
    assert found.peak == pytest.approx((50, 20, 70)) and found.peak_step == 4_000_000
    assert found.seeds == 5 and isinstance(found.peak, Estimate)


def test_ours_by_hand():
    found = ours(FIVE)
    # Of the seeds: means 20, 61/3, 92/3, 31, 33; ends 50 … 10; maxima 50, 40, 60, 70, 80.
    assert found.average.value == pytest.approx((61 / 3 + 92 / 3 + 31) / 3)
    assert found.final.value == pytest.approx(30) and found.peak.value == pytest.approx(60)
    assert found.peak_step == 4_000_000  # of 6, 6, 4, 4 and 4 million
    assert 10 <= found.final.low < 30 < found.final.high <= 50
    assert ours(FIVE) == found and ours(FIVE, key=1) != found


def test_fifteen_seeds_keep_seven_as_published_and_nine_of_ours():
    values = np.array(
        [[x, x] for x in [*range(4), 40, 50, 60, 70, 80, 90, 100, 1e4, 1e4, 1e5, 1e6]]
    )
    assert as_published(made(values)).final.value == pytest.approx(70)
    expected = (3 + 40 + 50 + 60 + 70 + 80 + 90 + 100 + 1e4) / 9
    assert ours(made(values)).final.value == pytest.approx(expected)


def test_the_peak_of_the_curve_is_below_that_of_seeds():
    """Seeds that peak one after the other: at no time are all at their best."""
    found = made(np.eye(4) * 100)
    assert as_published(found).peak.value == 0 and ours(found).peak.value == 100
    assert as_published(found).peak_step == 2_000_000  # the first of equal ones


def test_one_and_two_seeds():
    one = made([[1, 5, 3]])
    assert as_published(one).peak == (5, 5, 5) and as_published(one).peak_step == 4_000_000
    assert as_published(one).average == (3, 3, 3)
    for estimate, value in zip(ours(one)[:3], (3, 3, 5), strict=True):
        assert estimate.value == value and np.isnan(estimate.low) and np.isnan(estimate.high)
    two = made([[0, 4], [4, 8]])
    assert as_published(two).final == (6, 5, 7)
    assert ours(two).final == (6, 4, 8) and ours(two).average == (4, 2, 6)


def test_scores_of_seeds():
    """Of [0, 1, 2, 9] the two in the middle count; of two tasks, the mean of both."""
    scores = np.array([0.0, 1.0, 2.0, 9.0])
    one = of_seeds(scores)
    assert one.value == 1.5 and 0 <= one.low < 1.5 < one.high <= 9
    both = of_seeds(np.stack([scores, scores + 10], axis=1))
    assert both.value == 6.5
    lone = of_seeds(scores[:1])
    assert lone.value == 0 and np.isnan(lone.low)
    assert np.isnan(of_seeds(np.array([1.0, np.nan])).value)


def test_differences_of_scores():
    scores = np.array([0.0, 1.0, 2.0, 9.0])
    assert difference(scores + 3, scores).value == 3
    assert difference(np.full(3, 2.0), np.full(5, 0.5)) == (1.5, 1.5, 1.5)
    found = difference(scores, scores[::-1])
    assert found.value == 0 and found.low < 0 < found.high
    assert np.isnan(difference(scores, scores[:1]).low)  # of a single seed nothing is known


def test_what_is_not_whole_is_refused():
    holes = made([[1, np.nan], [1, 2]])
    for summary in (as_published, ours):
        with pytest.raises(CurvesError, match=r"1 of 4 values are missing, of seed 0"):
            summary(holes)
        with pytest.raises(CurvesError, match="reached step 4,000,000 of 6,000,000"):
            summary(made([[1, 2]], expected=6_000_000))
        with pytest.raises(CurvesError, match="no complete point yet"):
            summary(made(np.zeros((2, 0))))
        assert summary(holes.common()).final.value == 1


@given(
    arrays(
        np.float64,
        st.tuples(st.integers(1, 16), st.integers(1, 5)),
        elements=st.floats(-1e4, 1e4, width=32),
    )
)
def test_estimates_are_within_their_intervals(values):
    published, own = as_published(made(values)), ours(made(values))
    for estimate in (*published[:3], *own[:3]):
        if not np.isnan(estimate.low):
            assert estimate.low <= estimate.value <= estimate.high
    assert published.peak.value >= max(published.final.value, published.average.value) - 1e-6
    assert own.peak.value >= max(own.final.value, own.average.value) - 1e-6
    assert published.peak_step in made(values).steps and own.peak_step in made(values).steps
