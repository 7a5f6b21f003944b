"""Collapse on hand-made curves, and what must hold on any."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from continual_learning.diagnostics import Collapse, collapsed, collapses, collapsing

M = 1_000_000
NAN = np.nan


def found(returns, **options):
    """Collapses of curves in bins of 2M steps."""
    returns = np.asarray(returns)
    return collapses(2 * M * np.arange(1, returns.shape[-1] + 1), returns, **options)


CURVES = {
    "rising": ([0, 4000, 8000, 9000], []),
    "transient spike": ([0, 8500, 0, 8000, 8500], []),
    "two bins are 4M steps": ([0, 8500, 0, 500, 8000], [(4, 8, False, 8500)]),
    "exactly as deep as it must be": ([0, 8000, 0, 0, 8000], [(4, 8, False, 8000)]),
    "shallow": ([0, 8500, 501, 501, 501, 501], []),
    "slow decline": (
        [9000, 8000, 6000, 4000, 2000, 1000, 0, -1000, -2000],
        [(10, 18, True, 11000)],
    ),
    "recovery, and another": (
        [0, 9000, 0, 0, 0, 5000, 0, 900, 9500, 1500, -2000],
        [(4, 10, False, 9000), (12, 16, False, 9000), (18, 22, True, 11500)],
    ),
    "no recovery is no end": ([0, 9000, 0, 999, 1000, 0, 1001], [(4, 12, False, 9000)]),
    "at the very end, too short yet": ([0, 9000, 9000, 9000, 0], []),
    "at the very end, long enough": ([0, 9000, 9000, 0, 100], [(6, 10, True, 9000)]),
    "a spike breaks it": ([0, 9000, 0, 2000, 0, 2000, 0], []),
    "never measured": ([NAN, NAN, NAN], []),
    "one point": ([3], []),
    "NaN does not break it": ([0, 9000, 0, NAN, NAN, 0, 9000], [(4, 12, False, 9000)]),
    "NaN does not begin it": ([0, 9000, NAN, NAN, 0, 9000], []),
    "NaN begins before it": ([0, 9000, NAN, 0, 0], [(6, 10, True, 9000)]),
    "NaN does not prolong it": ([0, 9000, 0, NAN, NAN, 9000], []),
    "a run behind the others": ([0, 9000, 0, 0, NAN, NAN], [(4, 8, True, 9000)]),
    "NaN first": ([NAN, 9000, 0, 0, NAN, 9000], [(4, 8, False, 9000)]),
    "falls from its first value": ([9000, 0, 0], [(2, 6, True, 9000)]),
}


@pytest.mark.parametrize("name", CURVES)
def test_by_hand(name):
    returns, expected = CURVES[name]
    expected = [Collapse(0, a * M, b * M, is_open, depth) for a, b, is_open, depth in expected]
    assert found(returns) == expected
    assert found(np.array(returns, np.float32)) == expected
    steps = 2 * M * np.arange(1, len(returns) + 1, dtype=np.uint32)
    assert collapsed(steps, [returns]).tolist() == [bool(expected)]


def test_all_at_once():
    """The runs of one call, padded with NaN, are each as alone."""
    width = max(len(returns) for returns, _ in CURVES.values())
    table = np.full((len(CURVES), width), NAN)
    for i, (returns, _) in enumerate(CURVES.values()):
        table[i, : len(returns)] = returns
    alone = [
        each._replace(run=i)
        for i, (returns, _) in enumerate(CURVES.values())
        for each in found(returns)
    ]
    assert found(table) == alone


def test_other_depths_and_durations():
    returns = [0, 9000, 4000, 4000, 4000, 9000]
    assert not found(returns) and not found(returns, drop=5001)
    assert found(returns, drop=5000) == [Collapse(0, 4 * M, 10 * M, False, 5000)]
    assert found(returns, drop=5000, sustained=6 * M) and not found(
        returns, drop=5000, sustained=6 * M + 1
    )
    assert found([0, 9000, 0, 9000], sustained=0) == [Collapse(0, 4 * M, 6 * M, False, 9000)]
    irregular = collapses([1, 5, 6, 20], [0, 10, 0, 0], drop=10, sustained=15)
    assert irregular == [Collapse(0, 5, 20, True, 10)]


def test_relative_to_the_height_of_the_peak():
    share = {"drop": 0.5, "relative": True}
    assert found([0, 100, 50, 50], **share) == [Collapse(0, 4 * M, 8 * M, True, 50)]
    assert not found([0, 100, 51, 51], **share)
    assert found([90, 100, 50, 50], **share)  # above zero, not above the first value
    assert not found([90, 100, 51, 51], **share)
    # Returns that begin at -200 are 300 high at 100, and half of that is lost at -50.
    assert found([-200, 100, -50, -50], **share)
    assert not found([-200, 100, -49, -49], **share)
    assert found([-1600, -200, -900, -900], **share) and not found(
        [-1600, -200, -899, -899], **share
    )
    # Nothing was gained, so nothing is lost.
    assert not found([-5, -6, -7, -8, -9], **share) and not found([0, 0, 0, 0], **share)
    assert not found([NAN, -5, -6, -7, -8], **share) and not found([NAN, NAN], **share)
    assert found([NAN, -200, 100, NAN, -50, -50], **share)


def test_judged_by_what_was_seen():
    returns = [[0, 9000, 0, 0, 0, 9000, NAN], [0, 9000, 0, 0, NAN, NAN, NAN]]
    steps = 2 * M * np.arange(1, 8)
    now = collapsing(steps, returns)
    assert now.astype(int).tolist() == [[0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 1, 1, 1, 1]]
    assert collapsed(steps, returns).tolist() == [True, True]


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
@pytest.mark.parametrize("options", [{}, {"relative": True, "drop": 0.5}])
def test_nothing_to_look_at(shape, options):
    steps, returns = np.arange(shape[1]), np.zeros(shape)
    assert collapses(steps, returns, **options) == []
    assert collapsed(steps, returns, **options).tolist() == [False] * shape[0]
    assert collapsing([], [], **options).shape == (1, 0)


@pytest.mark.parametrize(
    ("steps", "returns", "options", "message"),
    [
        ([1, 2], [1, 2, 3], {}, r"steps must be \[points\] and returns \[runs, points\]"),
        ([[1, 2]], [1, 2], {}, r"steps must be \[points\]"),
        ([1, 1], [1, 2], {}, "strictly ascending"),
        ([2, 1], [1, 2], {}, "strictly ascending"),
        ([0.5, 1.0], [1, 2], {}, "steps must be whole numbers, got float64"),
        ([1, 2], [1, np.inf], {}, "finite, or NaN"),
        ([1, 2], [1, 2], {"drop": 0}, "drop must be above 0, got 0"),
        ([1, 2], [1, 2], {"drop": NAN}, "drop must be above 0, got nan"),
        ([1, 2], [1, 2], {"relative": True}, "a share above 0 and at most 1, got 8000"),
        ([1, 2], [1, 2], {"sustained": -1}, "sustained must not be negative, got -1"),
    ],
)
def test_what_is_refused(steps, returns, options, message):
    for function in (collapses, collapsed, collapsing):
        with pytest.raises(ValueError, match=message):
            function(steps, returns, **options)


points = st.one_of(st.integers(-20, 20).map(float), st.just(NAN))
runs = arrays(np.float64, st.tuples(st.integers(0, 4), st.integers(1, 12)), elements=points)
settings = st.fixed_dictionaries({"drop": st.integers(1, 20), "sustained": st.integers(0, 6)})


def by_definition(returns, drop, sustained):
    """Collapses of one run in bins of one step, point by point."""
    stretches, peak, begin, end, depth = [], -np.inf, None, None, 0.0
    for step, value in enumerate(returns, start=1):
        if np.isnan(value):
            continue
        if peak - value >= drop:
            if begin is None:
                begin, depth = step - 1, 0.0
            end, depth = step, max(depth, peak - value)
        else:
            if begin is not None:
                stretches.append((begin, end, False, depth))
            begin = None
        peak = max(peak, value)
    if begin is not None:
        stretches.append((begin, end, True, depth))
    return [each for each in stretches if each[1] - each[0] >= sustained]


@given(runs, settings)
def test_as_defined(returns, options):
    steps = np.arange(1, returns.shape[1] + 1)
    expected = [
        Collapse(i, *each)
        for i, run in enumerate(returns)
        for each in by_definition(run, **options)
    ]
    assert collapses(steps, returns, **options) == expected
    assert collapsed(steps, returns, **options).tolist() == [
        any(each.run == i for each in expected) for i in range(len(returns))
    ]


@given(runs, settings, st.integers(-100, 100), st.integers(0, 100))
def test_origins_do_not_matter(returns, options, shift, later):
    steps = np.arange(1, returns.shape[1] + 1)
    before = collapses(steps, returns, **options)
    assert collapses(steps, returns + shift, **options) == before
    moved = [each._replace(start=each.start + later, end=each.end + later) for each in before]
    assert collapses(steps + later, returns, **options) == moved


@given(runs, st.sampled_from([0.25, 0.5, 1.0]), st.sampled_from([0.5, 2.0, 1024.0]))
def test_scale_does_not_matter_to_a_share(returns, share, scale):
    steps = np.arange(1, returns.shape[1] + 1)
    options = {"drop": share, "relative": True, "sustained": 2}
    before = collapses(steps, returns, **options)
    scaled = [each._replace(depth=each.depth * scale) for each in before]
    assert collapses(steps, returns * scale, **options) == scaled


@given(runs, settings)
def test_what_comes_later_does_not_matter(returns, options):
    steps = np.arange(1, returns.shape[1] + 1)
    whole = collapsing(steps, returns, **options)
    for cut in range(returns.shape[1] + 1):
        part = collapsing(steps[:cut], returns[:, :cut], **options)
        np.testing.assert_array_equal(part, whole[:, :cut])


@given(runs, settings)
def test_deeper_and_longer_are_fewer(returns, options):
    steps = np.arange(1, returns.shape[1] + 1)
    some = collapsed(steps, returns, **options)
    for name in options:
        fewer = collapsed(steps, returns, **options | {name: options[name] + 1})
        assert (fewer <= some).all()
