"""Grids from text: which values, which of them are lanes of a program, and what is wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from continual_learning.schema.errors import StudyError
from continual_learning.studies import registry
from continual_learning.sweeps.grid import Grid, apply, parse_range, value_of
from continual_learning.sweeps.plan import divide, programs
from continual_learning.sweeps.settings import parse, settings

ANT, DIGITS = registry.get("slippery_ant"), registry.get("permuted_digits")


def test_a_range_has_both_ends_and_no_drift():
    expected = [0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.045, 0.05]
    assert parse_range("0.01:0.05:0.005") == expected
    assert parse_range("10:2:-4") == [10, 6, 2]
    assert all(isinstance(x, int) for x in parse_range("10:2:-4") or [])
    assert parse_range("1e-3:3e-3:1e-3") == [0.001, 0.002, 0.003]
    assert parse_range("0.1") is None


@given(st.integers(-50, 50), st.integers(1, 40), st.integers(1, 20))
def test_a_range_in_hundredths(first, step, count):
    """The numbers are those that one would write."""
    texts = [f"{(first + k * step) / 100:.2f}" for k in range(count)]
    found = parse_range(f"{texts[0]}:{texts[-1]}:{step / 100:.2f}")
    assert found == [float(text) for text in texts]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("0:10:3", "misses its end: end it at 9 or 12"),
        ("5:1:1", "leads away from its end"),
        ("1:2", "FIRST:LAST:STEP.*got '1:2'"),
        ("1:2:0", "FIRST:LAST:STEP"),
        ("a:2:1", "FIRST:LAST:STEP"),
        ("0:1:0.00001", "more than 10,000 numbers"),
    ],
)
def test_ranges_that_are_none(text, error):
    with pytest.raises(StudyError, match=error):
        parse_range(text)


def test_a_grid_from_text():
    texts = ["max_reset=0.01:0.02:0.005", "every=1e2,1000", "shape=exp,sigmoid", "clip=none,0.5"]
    grid = parse(ANT, "cpr", [*texts, "policy_hidden=32,32;64", "reset_bias=true"])
    assert grid.values == {
        "max_reset": (0.01, 0.015, 0.02),
        "every": (100, 1000),
        "shape": ("exp", "sigmoid"),
        "clip": (None, 0.5),
        "policy_hidden": ((32, 32), (64,)),
        "reset_bias": (True,),
    }
    assert all(isinstance(value, int) for value in grid.values["every"])
    assert len(grid) == len(grid.configurations()) == 3 * 2 * 2 * 2 * 2
    assert grid.configurations()[1] == {
        **{name: values[0] for name, values in grid.values.items()},
        "policy_hidden": (64,),
    }
    assert Grid.from_dict(grid.to_dict()) == grid


def test_numbers_of_a_name_are_of_one_type():
    assert [type(x) for x in Grid({"sharpness": (8, 0.5, None)}).values["sharpness"]] == [
        float,
        float,
        type(None),
    ]


@pytest.mark.parametrize(
    ("texts", "error"),
    [
        (["max_rest=1"], "Unknown setting of cpr 'max_rest'. Did you mean 'max_reset'"),
        (["max_reset"], "write NAME=VALUES"),
        (["max_reset="], "write NAME=VALUES"),
        (["max_reset=0.1,a"], "max_reset: each value must be a number; got 'a'"),
        (["max_reset=nan"], "each value must be a number; got 'nan'"),
        (["max_reset=0.1,1e-1"], "a value is given twice"),
        (["every=1", "every=2"], "every is given twice"),
        (["reset_bias=maybe"], "true or false"),
        (["learning_rate=-1"], "learning_rate must be a number above 0"),
        (["seeds=1,2"], "Unknown setting"),
        ([], "The grid is empty"),
    ],
)
def test_grids_that_are_none(texts, error):
    with pytest.raises(StudyError, match=error):
        parse(ANT, "cpr", texts)


def test_methods_that_are_none():
    with pytest.raises(StudyError, match=r"Unknown method of slippery_ant 'crp'.*'cpr'"):
        parse(ANT, "crp", ["every=1"])


def test_what_is_a_number_of_a_lane():
    ant, digits = settings(ANT, "cbp"), settings(DIGITS, "adam")
    numbers = {name for name, each in ant.items() if each.number}
    assert numbers == {
        *("replacement_rate", "decay", "maturity"),
        *("learning_rate", "clip", "eps_root"),
        *("discount", "gae_lambda", "clip_ratio", "entropy_coefficient"),
    }
    numbers = {name for name, each in digits.items() if each.number}
    assert numbers == {"learning_rate", "clip", "eps_root"}
    assert settings(registry.get("mt1"), "adam")["tau"].number


def test_numbers_are_lanes_and_all_else_makes_programs():
    grid = parse(
        DIGITS, "redo", ["threshold=0.1,0.2", "max_reset_fraction=none,0.5", "hidden=8;16"]
    )
    found = programs(DIGITS, "redo", grid.configurations(), [1000, 1001])
    kinds = [(study.experiment.value("hidden"), [*study.hyper], study.lanes) for study in found]  # pyright: ignore
    both = ["threshold", "max_reset_fraction"]
    assert kinds == [((8,), both[:1], 4), ((16,), both[:1], 4), ((8,), both, 4), ((16,), both, 4)]
    assert found[0].seeds == [1000, 1001, 1000, 1001]
    assert found[0].hyper == {"threshold": [0.1, 0.1, 0.2, 0.2]}
    assert found[0].methods == ["redo"]


def test_a_wrong_configuration_is_told_before_anything_runs():
    with pytest.raises(StudyError, match=r"max_reset must be .* at most 1, got 1.5"):
        programs(DIGITS, "cpr", Grid({"max_reset": (0.5, 1.5)}).configurations(), [1000])
    with pytest.raises(StudyError, match="Unknown setting of adam 'max_reset'"):
        programs(DIGITS, "adam", Grid({"max_reset": (0.5,)}).configurations(), [1000])


def test_settings_of_an_experiment_and_back():
    chosen = {"max_reset_fraction": None, "threshold": 0.25, "hidden": (8, 8), "clip": None}
    changed = apply(DIGITS, "redo", chosen)
    assert {name: value_of(changed, "redo", name) for name in chosen} == chosen
    assert "max_reset_fraction" not in changed.methods["redo"].options


@given(st.integers(1, 200), st.integers(1, 200))
def test_blocks_are_few_and_even(lanes, size):
    [study] = programs(DIGITS, "cpr", [{"every": k + 1} for k in range(lanes)], [7])
    blocks = divide(study, size)
    sizes = [block.lanes for block in blocks]
    assert len(blocks) == -(-lanes // size) and max(sizes) <= size
    assert max(sizes) - min(sizes) <= 1
    assert [each for block in blocks for each in block.hyper["every"]] == [*range(1, lanes + 1)]
