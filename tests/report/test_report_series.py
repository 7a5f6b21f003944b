"""What the charts of a report draw."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from continual_learning import report
from continual_learning.report import facts, series, studies
from tests.report import report_study
from tests.report.report_pages import TABLE, by_hand, numbers, rows, text_of, unpacked


@given(
    arrays.arrays(
        np.float64,
        st.tuples(st.integers(1, 4), st.integers(0, 9)),
        elements=st.one_of(st.just(np.nan), st.floats(-1e9, 1e9)),
    )
)
def test_packed_values_are_those(values):
    found = unpacked(series.pack(values))
    for row, packed in zip(values, found, strict=True):
        kept = row[~np.isnan(row)]
        room = np.ptp(kept) / 65534 + 1e-6 if len(kept) else 0
        np.testing.assert_allclose(packed, row, rtol=0, atol=room)


def test_packed_logarithms_keep_small_values():
    values = np.array([[1e-6, 1.0, 1e9, np.nan]])
    np.testing.assert_allclose(unpacked(series.pack(values, log=True), log=True), values, rtol=1e-3)


def test_the_middle_is_drawn_where_all_seeds_have_a_value(tmp_path):
    section = by_hand(
        tmp_path / "a",
        cpr=rows({0: [0.0] * 8, 1: [0.2] * 8, 2: [0.4] * 4, 3: [0.6] * 8, 4: [5] * 8}),
    )
    located = series.locate(section)
    data = series.section_data(section, located, "test_accuracy", 800)
    [[line], *_] = data["groups"][0]["metrics"][0]["lines"]
    np.testing.assert_array_equal(numbers(data["grids"][line["grid"]]), np.arange(1, 9))
    np.testing.assert_array_equal(numbers(line["count"], "<u2"), [5] * 4 + [4] * 4)
    iqm, q25, q75 = unpacked(line["center"])
    np.testing.assert_allclose(iqm, [0.4] * 4 + [np.nan] * 4)  # without the least and the largest
    np.testing.assert_allclose(q25, [0.2] * 4 + [np.nan] * 4)
    np.testing.assert_allclose(q75, [0.6] * 4 + [np.nan] * 4)


def test_no_extreme_is_lost_when_there_are_many_rows(tmp_path):
    total = 5000
    values = np.random.default_rng(0).normal(size=(2, total))
    values[1, 1234], values[0, 4000] = 99.0, -77.0
    columns = {
        "seed": np.repeat([0, 1], total),
        "step": np.tile(np.arange(1, total + 1) * 10, 2),
        "task": np.tile(np.arange(total) // 500, 2),
        "test_accuracy": values.reshape(-1),
    }
    [section] = studies.read([report_study.store(tmp_path / "a", TABLE, {"cpr": columns})])
    located = series.locate(section)
    data = series.section_data(section, located, "test_accuracy", 100)
    assert data["binned"]
    assert data["levels"][0] == "500 steps (50 rows)"
    [line] = data["groups"][0]["metrics"][0]["lines"][0]
    assert line["each"] == 2
    seeds = unpacked(line["seeds"])
    assert seeds.shape == (2, 200)
    bins = values.reshape(2, 100, 50)
    np.testing.assert_allclose(
        np.sort(seeds.reshape(2, 100, 2)), np.stack([bins.min(2), bins.max(2)], 2), atol=2e-3
    )
    np.testing.assert_allclose(unpacked(line["center"])[0], bins.mean(2).mean(0), atol=1e-4)
    assert "so that no extreme is lost" in text_of(report.make([tmp_path / "a"]))


def test_a_bin_that_is_not_full_has_no_mean(tmp_path):
    total = 102
    section = by_hand(tmp_path / "a", cpr=rows({0: list(range(total)), 1: [0.0] * (total - 2)}))
    data = series.section_data(section, series.locate(section), "test_accuracy", 26)
    assert data["levels"][0] == "4 steps (4 rows)"
    [line] = data["groups"][0]["metrics"][0]["lines"][0]
    np.testing.assert_array_equal(numbers(data["grids"][line["grid"]])[-2:], [100, 102])
    np.testing.assert_array_equal(numbers(line["count"], "<u2"), [2] * 25 + [0])
    iqm = unpacked(line["center"])[0]
    assert iqm[-2] == pytest.approx((96 + 97 + 98 + 99) / 4 / 2, abs=0.01)
    assert np.isnan(iqm[-1])
    assert unpacked(line["seeds"])[0, -2:] == pytest.approx([101, 100], abs=0.01)  # goes on


def test_rows_in_which_something_is_not_measured_make_no_gaps(tmp_path):
    rank = np.array([np.nan, 5.0] * 4)
    section = by_hand(
        tmp_path / "a", cpr=rows({0: [0.1] * 8}, srank=rank), adam=rows({0: [0.1] * 8})
    )
    data = series.section_data(section, series.locate(section), "srank", 800)
    adam, cpr = data["groups"][1]["metrics"][0]["lines"][0]
    assert adam is None
    np.testing.assert_array_equal(numbers(data["grids"][cpr["grid"]]), [2, 4, 6, 8])


def test_parameters_of_tasks(tmp_path):
    folder = report_study.write(tmp_path / "a", methods=("adam", "cpr"))
    [section] = studies.read([folder])
    names = studies.numeric(section.frame)
    data = series.section_data(section, series.locate(section), "episode_return", 800)
    [strip] = data["strips"]
    assert strip["name"] == "friction" and strip["log"] and not strip["same"]
    expected = section.frame.groupby(["seed", "task"]).friction.first().to_numpy()
    np.testing.assert_array_equal(numbers(strip["values"]), expected)
    shown = [metric["name"] for group in data["groups"] for metric in group["metrics"]]
    assert "gravity" not in shown and "friction" not in shown
    assert set(names) - set(shown) == {"friction", "gravity"}


def test_a_parameter_that_is_the_same_for_all_seeds_is_one_row(tmp_path):
    delay = np.tile([0.0, 0, 3, 3, 1, 1, 8, 8], 2)
    section = by_hand(tmp_path / "a", cpr=rows({0: [0.1] * 8, 1: [0.2] * 8}, delay=delay))
    data = series.section_data(section, series.locate(section), "test_accuracy", 800)
    [strip] = data["strips"]
    assert strip["same"]
    np.testing.assert_array_equal(numbers(strip["values"]), [0, 3, 1, 8])


@pytest.mark.parametrize(("kind", "field"), [("games", "games"), ("host", "sequence"), ("", "")])
def test_tasks_that_have_names(tmp_path, kind, field):
    """They stand in place of numbers of games, whose returns have no scale in common."""
    games = ["asterix", "breakout", "seaquest"]
    columns = rows({0: [90.0] * 2 + [1.0] * 6}, game=np.repeat([0, 1, 2, 0], 2))
    columns["latest_return"] = columns.pop("test_accuracy")
    table = TABLE | ({"kind": kind, field: games} if kind else {"kind": "control"})
    folder = report_study.store(tmp_path / "a", table, {"cpr": columns})
    [section] = studies.read([folder])
    data = series.section_data(section, series.locate(section), "latest_return", 800)
    assert data["tasks"] == ([*games, games[0]] if kind else [])
    assert [strip["name"] for strip in data["strips"]] == ([] if kind else ["game"])
    assert bool(facts.rules(section, "latest_return")) == (not kind)
    text = text_of(report.make([folder]))
    for said in ("Returns of different tasks have no scale in common.", "large returns count most"):
        assert (said in text) == bool(kind)


@pytest.mark.parametrize(
    ("games", "dormant", "change", "said"),
    [
        (["asterix", "breakout", "seaquest", "freeway"], 0.75, None, "most dormant units: 75.0 %."),
        (["asterix", "breakout", "seaquest", "freeway"], None, None, "were not measured."),
        (["asterix", "breakout", "seaquest", "asterix"], 0.75, -30, "Plasticity lost CPR −30"),
        (["asterix"], 0.75, -30, "Plasticity lost CPR −30"),
    ],
)
def test_a_loss_is_one_of_the_same_game(tmp_path, games, dormant, change, said):
    """From the first task to the last; of different ones, dormant units are all that is said."""
    more = {} if dormant is None else {"dormant_ratio": np.full(8, dormant)}
    columns = rows({0: [90.0] * 2 + [1.0] * 4 + [60.0] * 2}, **more)
    columns["latest_return"] = columns.pop("test_accuracy")
    table = TABLE | {"kind": "games", "games": games}
    folder = report_study.store(tmp_path / "a", table, {"cpr": columns})
    [section] = studies.read([folder])
    [method] = facts.facts(section, series.locate(section), "latest_return")
    found = method.measures["change"].value
    assert np.isnan(found) if change is None else found == change
    assert (method.measures["first"].value, method.measures["last"].value) == (90, 60)
    assert said in text_of(report.make([folder]))
