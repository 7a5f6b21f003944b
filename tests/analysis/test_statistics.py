"""Statistics over runs: known answers, rliable's numbers, and what must hold for any scores."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from continual_learning.analysis import statistics as stats

RLIABLE = json.loads(Path(__file__).with_name("rliable.json").read_text())
NAN = np.nan
CASES = sorted(RLIABLE["cases"])
scores = arrays(
    np.float64,
    array_shapes(min_dims=2, max_dims=2, max_side=16),
    elements=st.integers(-1000, 1000).map(float),
)


def aggregates(x):
    """In the order of rliable.json."""
    means = stats.mean(x)
    everything = stats.iqm(x, axis=None), stats.mean(x, axis=None)
    return np.array([*everything, stats.median(means), stats.optimality_gap(x)])


def case(name):
    found = {key: np.asarray(value) for key, value in RLIABLE["cases"][name].items()}
    return found, found["x"], found["y"]


def test_the_cases_are_those_that_are_compared():
    assert RLIABLE["aggregates"] == ["iqm", "mean", "median", "optimality_gap"]
    assert RLIABLE["made_by"]["rliable"] == "1.2.0" and len(CASES) == 6


@pytest.mark.parametrize("name", CASES)
def test_numbers_of_rliable(name):
    expected, x, y = case(name)
    same = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(aggregates(x), expected["aggregates"], **same)
    np.testing.assert_allclose(
        stats.probability_of_improvement(x, y), expected["improvement"], **same
    )
    thresholds = expected["thresholds"]
    np.testing.assert_allclose(
        stats.performance_profile(x, thresholds), expected["profile"], **same
    )
    np.testing.assert_allclose(
        stats.performance_profile(stats.mean(x), thresholds), expected["average_profile"], **same
    )


@pytest.mark.parametrize("name", CASES)
def test_intervals_of_rliable(name):
    """The ends of both are estimates, from R draws.

    Where the statistic is about normal with deviation σ, the deviation of an end of a 95 % interval
    is √(0.025 · 0.975 / R) / (0.0584 / σ) = 2.7 σ / √R: 0.011 of the width (3.9 σ) for R = 4,000,
    as ours. Five times the deviation of both, at most R = 4,000 each, is 0.08 of the width. Shares
    jump between multiples of 1 / (the number of comparisons) besides.
    """
    expected, x, y = case(name)
    quantum = {"aggregates": 0.0, "profile": 1 / x.size}
    quantum["improvement"] = 0.5 / (len(x) * y.size)
    if len(np.unique(x)) < 10 or len(x) == 2:  # the aggregates jump as well
        quantum["aggregates"] = np.ptp(x) / x.size
    functions = {
        "aggregates": (aggregates, x),
        "improvement": (stats.probability_of_improvement, x, y),
        "profile": (lambda s: stats.performance_profile(s, expected["thresholds"]), x),
    }
    for what, (function, *samples) in functions.items():
        found = np.array(stats.bootstrap(function, *samples, repeats=4000))
        low, high = reference = expected[f"{what}_interval"]
        assert found.shape == reference.shape
        tolerance = 0.08 * (high - low) + quantum[what] + 1e-12
        assert (np.abs(found - reference) <= tolerance).all(), (what, found, reference)


def test_iqm_of_fifteen_keeps_nine_and_as_published_seven():
    x = np.array([0, 1, 2, 30, 4, 5, 6, 7, 8, 9, 10, 11, 1200, 13, 14.0]) ** 1.5
    ordered = np.sort(x)
    assert stats.iqm(x) == pytest.approx(ordered[3:12].mean())
    assert stats.iqm_as_published(x) == pytest.approx(ordered[4:11].mean())
    low, high = stats.iqr(x)
    assert low == pytest.approx((ordered[3] + ordered[4]) / 2)
    assert high == pytest.approx((ordered[10] + ordered[11]) / 2)


@pytest.mark.parametrize("n", range(1, 16))
def test_as_published_is_the_formula_of_the_papers_plots(n):
    """Means of fewer than four; else of those that no interpolated quartile cuts off."""
    rng = np.random.default_rng(n)
    for x in (rng.normal(size=n), rng.integers(0, 3, size=n) * 1.0):  # with ties too
        if n < 4:
            expected = sum(x) / n
        else:
            ordered = sorted(x)

            def quantile(share, ordered=ordered):
                at, part = divmod(share * (n - 1), 1)
                low, high = ordered[int(at)], ordered[min(int(at) + 1, n - 1)]
                return low + part * (high - low)

            kept = [v for v in x if quantile(0.25) <= v <= quantile(0.75)]
            expected = sum(kept) / len(kept)
        assert stats.iqm_as_published(x) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("x", "iqm", "published"),
    [
        ([3], 3, 3),
        ([1, 2], 1.5, 1.5),
        ([1, 2, 6], 3, 3),
        ([0, 1, 2, 9], 1.5, 1.5),
        ([9, 0, 1, 2, 4], 7 / 3, 7 / 3),
        ([5, 5, 5, 5], 5, 5),
        ([0, 0, 0, 8], 0, 0),
    ],
)
def test_few_runs_by_hand(x, iqm, published):
    assert stats.iqm(x) == pytest.approx(iqm)  # lists of integers too
    assert stats.iqm_as_published(np.array(x, np.int32)) == pytest.approx(published)


def test_other_statistics_by_hand():
    x = np.array([[0.0, 1.0], [2.0, 5.0], [4.0, 0.0]])
    assert stats.mean(x).tolist() == [2, 2] and stats.median(x).tolist() == [2, 1]
    assert stats.mean(x, axis=None) == 2 and stats.mean(x, axis=1).tolist() == [0.5, 3.5, 2]
    assert stats.iqr(x[:, 0]) == (1, 3)
    assert stats.optimality_gap(x, 4) == pytest.approx(4 - (0 + 1 + 2 + 4 + 4 + 0) / 6)
    assert stats.optimality_gap(x, 4, axis=0).tolist() == pytest.approx([2, 4 - 5 / 3])
    assert stats.performance_profile(x, [-1, 0, 1, 5]).tolist() == pytest.approx(
        [1, 4 / 6, 3 / 6, 0]
    )


def test_probability_of_improvement_by_hand():
    # 3 > 1, 3 = 3 (half), 0 < 1, 0 < 3; and in the other task every run is better.
    assert stats.probability_of_improvement([3, 0], [1, 3]) == pytest.approx(1.5 / 4)
    x, y = [[3, 9], [0, 9]], [[1, 0], [3, 0]]
    assert stats.probability_of_improvement(x, y) == pytest.approx((1.5 / 4 + 1) / 2)
    task = np.arange(5.0)
    expected = scipy.stats.mannwhitneyu(task, task[:3] + 1, alternative="greater").statistic / 15
    assert stats.probability_of_improvement(task, task[:3] + 1) == pytest.approx(expected)


def test_what_is_missing_shows():
    x = np.arange(20.0).reshape(5, 4)
    x[2, 1] = np.nan
    for function in (stats.iqm, stats.iqm_as_published, stats.mean, stats.median):
        assert np.isnan(function(x)).tolist() == [False, True, False, False]
        assert np.isnan(function(x, axis=None))
    for end in (*stats.iqr(x), *stats.bootstrap(stats.iqm, x, repeats=20)):
        assert np.isnan(end).tolist() == [False, True, False, False]
    for key in range(20):  # also where no draw meets it
        assert np.isnan(stats.bootstrap(stats.iqm, [1, 2, 3, NAN], repeats=1, key=key)).all()
    assert np.isnan(stats.performance_profile(x, [0, 1])).all()
    assert np.isnan(stats.probability_of_improvement(x, x))
    assert np.isnan(stats.iqm(np.full((3, 2), np.nan))).all()


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinity_is_refused(value):
    for function in (stats.iqm, stats.iqm_as_published, stats.mean, stats.median, stats.iqr):
        with pytest.raises(ValueError, match="got infinity: a run diverged"):
            function([1.0, value])
    with pytest.raises(ValueError, match="got infinity"):
        stats.probability_of_improvement([value], [1])


def test_nothing_is_refused():
    for function in (stats.iqm, stats.iqm_as_published, stats.mean, stats.median, stats.iqr):
        with pytest.raises(ValueError, match="at least one run"):
            function(np.zeros((0, 3)))
    assert stats.iqm(np.zeros((3, 0))).shape == (0,)
    with pytest.raises(ValueError, match="at least one run"):
        stats.performance_profile([], [0.5])
    with pytest.raises(ValueError, match="thresholds must be numbers, got NaN"):
        stats.performance_profile([1.0], [NAN])
    with pytest.raises(ValueError, match=r"y must be \[runs, tasks\] and not empty"):
        stats.probability_of_improvement([1], [])
    with pytest.raises(ValueError, match="same tasks, got 2 and 3"):
        stats.probability_of_improvement(np.ones((1, 2)), np.ones((1, 3)))
    for samples in ([], [np.zeros((0, 3))], [3.0]):
        with pytest.raises(ValueError, match=r"Samples must be \[runs, …\] and not empty"):
            stats.bootstrap(stats.mean, *samples)
    for wrong in ({"repeats": 0}, {"confidence": 1.0}, {"confidence": 95}):
        with pytest.raises(ValueError, match="repeats must be at least 1 and confidence between"):
            stats.bootstrap(stats.mean, [1.0, 2.0], **wrong)


def test_bootstrap_is_of_its_key():
    x = np.random.default_rng(1).normal(size=(9, 3))
    first = stats.bootstrap(stats.iqm, x, key=4, repeats=50)
    again = stats.bootstrap(stats.iqm, x, key=4, repeats=50)
    other = stats.bootstrap(stats.iqm, x, key=5, repeats=50)
    np.testing.assert_array_equal(first, again)
    assert first.low.shape == (3,) and (np.array(first) != np.array(other)).any()


def test_bootstrap_of_a_mean_is_known():
    """Of n runs the mean of a resample has the deviation σ / √n (σ without Bessel's correction)."""
    x = np.random.default_rng(2).normal(3.0, 2.0, size=400)
    low, high = stats.bootstrap(stats.mean, x, repeats=4000)
    half = 1.96 * x.std() / 20
    assert (low, high) == pytest.approx((x.mean() - half, x.mean() + half), abs=0.1 * half)
    narrow = stats.bootstrap(stats.mean, x, repeats=4000, confidence=0.5)
    half = 0.6745 * x.std() / 20
    assert tuple(narrow) == pytest.approx((x.mean() - half, x.mean() + half), abs=0.1 * half)


def test_bootstrap_of_two_runs_is_known():
    """The mean of two draws of 0 and 1 is 0 or 1 a quarter of the time each."""
    assert stats.bootstrap(stats.mean, [0.0, 1.0]) == (0, 1)
    assert stats.bootstrap(stats.mean, [0.0, 1.0], confidence=0.4) == (0.5, 0.5)


def test_tasks_are_drawn_apart():
    """Drawn together, the two columns of a run would always cancel."""
    x = np.arange(8.0)
    both = np.stack([x, -x], axis=1)
    low, high = stats.bootstrap(lambda s: s.sum(), both)
    assert low < -5 and high > 5


def test_bootstrap_of_equal_and_of_single_runs():
    assert stats.bootstrap(stats.iqm, np.full((5, 2), 3.0)).low.tolist() == [3, 3]
    assert np.isnan(stats.bootstrap(stats.iqm, [3.0])).all()
    assert np.isnan(stats.bootstrap(stats.iqm, np.ones((1, 4))).high).tolist() == [True] * 4
    assert np.isnan(stats.bootstrap(stats.probability_of_improvement, [3.0], [1.0, 2.0])).all()


def test_curves_of_several_tasks():
    """[runs, tasks, points], as for rliable's sample-efficiency curves."""
    x = np.random.default_rng(3).normal(size=(5, 4, 7))
    found = stats.iqm(x, axis=(0, 1))
    expected = [stats.iqm(x[..., i], axis=None) for i in range(7)]
    np.testing.assert_allclose(found, expected)
    low, high = stats.bootstrap(lambda s: stats.iqm(s, axis=(0, 1)), x, repeats=200)
    assert low.shape == (7,) and (low < found).all() and (found < high).all()


@given(scores)
def test_iqm_is_a_trimmed_mean(x):
    np.testing.assert_allclose(stats.iqm(x), scipy.stats.trim_mean(x, 0.25), atol=1e-9)
    expected = scipy.stats.trim_mean(x, 0.25, axis=None)
    np.testing.assert_allclose(stats.iqm(x, axis=None), expected, atol=1e-9)


@given(scores, st.randoms(use_true_random=False), st.integers(1, 5), st.integers(-100, 100))
def test_order_scale_and_origin_do_not_matter(x, random, scale, shift):
    runs = list(range(len(x)))
    random.shuffle(runs)
    for function in (stats.iqm, stats.iqm_as_published, stats.median, stats.mean):
        value = function(x)
        np.testing.assert_allclose(function(x[runs]), value, atol=1e-9)
        np.testing.assert_allclose(function(scale * x + shift), scale * value + shift, atol=1e-9)
        assert (value >= x.min(axis=0) - 1e-9).all() and (value <= x.max(axis=0) + 1e-9).all()
    low, high = stats.iqr(x)
    value = stats.iqm_as_published(x)
    assert (low <= value + 1e-9).all() and (value <= high + 1e-9).all()


@given(scores, st.integers(1, 8), st.integers(0, 2**31))
def test_improvement_is_one_minus_the_reverse(x, runs, seed):
    y = np.random.default_rng(seed).integers(-1000, 1000, (runs, x.shape[1]))
    forward, back = (
        stats.probability_of_improvement(x, y),
        stats.probability_of_improvement(y, x),
    )
    assert forward + back == pytest.approx(1) and 0 <= forward <= 1
    assert stats.probability_of_improvement(x, x) == pytest.approx(0.5)


@given(scores, arrays(np.float64, 5, elements=st.integers(-1000, 1000).map(float)))
def test_a_profile_falls_from_one_to_zero(x, thresholds):
    found = stats.performance_profile(x, np.sort(thresholds))
    assert (np.diff(found) <= 0).all()
    expected = [(x > t).mean() for t in np.sort(thresholds)]
    np.testing.assert_allclose(found, expected, atol=1e-12)
