"""From tables to arrays: bins, what is missing, what is refused."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continual_learning.analysis import load
from continual_learning.analysis.curves import Curves, CurvesError, curves, main_metric
from continual_learning.studies import registry, spec
from continual_learning.studies.store.store import Store
from tests.analysis.synthetic import table, tables
from tests.studies.toy_study import STUDY

NAN = np.nan


def only(frame, **options):
    [found] = curves(frame, "value", **options).values()
    return found


def test_rows_as_they_are():
    found = only(table())
    assert (found.method, found.metric, found.expected) == ("cpr", "value", None)
    assert found.seeds.tolist() == [0, 1]
    assert found.steps.tolist() == [100, 200, 300, 400, 500, 600]
    assert found.tasks.tolist() == [0, 0, 0, 1, 1, 1]
    assert found.values.tolist() == [
        [100, 200, 300, 400, 500, 600],
        [1100, 1200, 1300, 1400, 1500, 1600],
    ]
    assert [a.dtype for a in (found.seeds, found.steps, found.tasks)] == [np.int64] * 3
    assert found.values.dtype == np.float64 and found.whole() is found


def test_a_bin_ends_with_its_end():
    found = only(table(), bin=200)
    assert found.steps.tolist() == [200, 400, 600]
    assert found.tasks.tolist() == [0, 1, 1]
    assert found.values[0].tolist() == [150, 350, 550]
    # 300 is reached by the row at 300, 450 only by that at 500.
    assert only(table(), bin=150).steps.tolist() == [150, 300, 450, 600]
    assert only(table(), bin=150).values[0].tolist() == [100, 250, 400, 550]
    assert only(table(), bin=250).values[0].tolist() == [150, 400]


def test_the_last_bin_of_a_finished_run_ends_with_it():
    found = only(table(), bin=250, expected=600)
    assert found.steps.tolist() == [250, 500, 600] and found.values[0].tolist() == [150, 400, 600]
    running = only(table(), bin=250, expected=700)
    assert running.steps.tolist() == [250, 500] and running.expected == 700
    assert only(table(), bin=10**12, expected=600).values.tolist() == [[350], [1350]]


def test_bins_of_the_paper():
    """400M steps in rows of 96 · 2,048, in bins of 2M: their ends are multiples of 2M."""
    found = only(table(steps=range(196_608, 401_080_321, 196_608)), bin=2_000_000)
    assert len(found.steps) == 200 and 382_000_000 in found.steps and found.steps[-1] == 400_000_000


def test_a_bin_smaller_than_the_distance_of_rows():
    found = only(table(), bin=70)
    assert found.steps.tolist() == [140, 210, 350, 420, 560]  # that of 600 ends at 630
    assert only(table(), bin=30).steps.tolist() == [120, 210, 300, 420, 510, 600]


def test_step_zero_is_a_bin_of_its_own():
    found = only(table(steps=[0, 50, 100], per_task=1000), bin=100)
    assert found.steps.tolist() == [0, 100] and found.values[0].tolist() == [0, 75]


def test_no_bin_is_complete():
    found = only(table(), bin=1000)
    assert found.values.shape == (2, 0)
    with pytest.raises(CurvesError, match="no complete point yet"):
        found.whole()


def test_nan_is_not_measured():
    values = [1.0, NAN, NAN, NAN, 5.0, 6.0]
    frame = table(seeds=[3], value=np.array(values))
    np.testing.assert_array_equal(only(frame).values, [values])
    np.testing.assert_array_equal(only(frame, bin=200).values, [[1, NAN, 5.5]])
    with pytest.raises(
        CurvesError, match=r"1 of 3 values are missing, of seed 3 \(from step 400\)"
    ):
        only(frame, bin=200).whole()
    assert only(frame, bin=200).common().steps.tolist() == [200, 600]


def test_a_seed_that_is_behind():
    frame = tables(table(), table(seeds=[7], steps=[100, 200, 300]))
    found = only(frame)
    assert found.seeds.tolist() == [0, 1, 7] and np.isnan(found.values[2, 3:]).all()
    message = (
        r"^value of cpr is incomplete: 3 of 18 values are missing, of seed 7 \(from step 400\)\. "
        r"Finish the study \(`continual resume DIR`\)"
    )
    with pytest.raises(CurvesError, match=message):
        found.whole()
    cut = found.common()
    assert cut.steps.tolist() == [100, 200, 300] and cut.tasks.tolist() == [0, 0, 0]
    assert cut.whole().values.shape == (3, 3)
    # A bin that it has begun is not there for it, although it has rows of it.
    binned = only(frame, bin=200)
    np.testing.assert_array_equal(binned.values[2], [7150, NAN, NAN])
    np.testing.assert_array_equal(binned.values[:2], only(table(), bin=200).values)


def test_many_seeds_are_not_all_named():
    frame = tables(table(), table(seeds=range(10, 20), steps=[100]))
    with pytest.raises(CurvesError, match=r"seed 10 \(from step 200\), .* and 5 more\."):
        only(frame).whole()


def test_a_run_in_progress_is_not_whole():
    found = only(table(), expected=900)
    with pytest.raises(CurvesError, match="it has reached step 600 of 900"):
        found.whole()
    assert found.common().expected is None and found.common().whole().values.shape == (2, 6)


def test_methods_in_the_order_of_figures():
    frame = tables(*(table(m) for m in ("zeta", "redo", "adam", "my_method", "cpr")))
    assert list(curves(frame, "value")) == ["adam", "cpr", "redo", "my_method", "zeta"]


def test_the_order_of_rows_does_not_matter():
    frame = tables(table(), table("adam"))
    shuffled = frame.sample(frac=1, random_state=0)
    for bin in (None, 250):
        for name, found in curves(shuffled, "value", bin=bin).items():
            expected = curves(frame, "value", bin=bin)[name]
            for field in dataclasses.fields(Curves):
                np.testing.assert_array_equal(
                    getattr(found, field.name), getattr(expected, field.name)
                )


def test_hyper_parameters_are_apart():
    lanes = [table(seeds=[0, 1]).assign(hyper_max_reset=np.float32(r)) for r in (0.1, 0.015)]
    lanes += [table(seeds=[5]).assign(hyper_max_reset=np.float32(NAN))]
    frame = tables(*(lane.assign(hyper_every=100) for lane in lanes), table("adam"))
    found = curves(frame, "value")
    assert list(found) == ["adam", "cpr (max_reset=0.015)", "cpr (max_reset=0.1)", "cpr"]
    assert found["cpr (max_reset=0.1)"].seeds.tolist() == [0, 1]
    assert found["cpr"].seeds.tolist() == [5]
    frame = tables(*(table(seeds=[i]).assign(hyper_a=i % 2, hyper_b=i // 2) for i in range(4)))
    assert list(curves(frame, "value")) == [f"cpr (a={a}, b={b})" for a in (0, 1) for b in (0, 1)]


def test_seeds_of_several_studies():
    found = only(tables(a=table(), b=table(seeds=[2])))
    assert found.seeds.tolist() == [0, 1, 2]


@pytest.mark.parametrize("names", ["ab", "abc"])
def test_a_seed_in_two_studies_is_refused(names):
    each = {name: table(seeds=[i + 4]) for i, name in enumerate(names)}
    each |= {names[-1]: table(seeds=[1, 2]), names[-2]: table(seeds=[2, 3], steps=[1, 2, 3])}
    with pytest.raises(CurvesError, match=r"^. and . both have cpr, with seeds \[2\]\. .*apart: f"):
        curves(tables(**each), "value")


def make(folder, experiment, seeds, steps):
    """A study that has rows of CPR."""
    study = {"experiment": spec.to_dict(experiment), "methods": ["cpr"], "seeds": list(seeds)}
    rows = table(seeds=seeds, steps=steps, per_task=experiment.steps_per_task)
    with Store.create(folder, study, {}) as store:
        columns = {name: rows[name].to_numpy() for name in rows if name != "method"}
        store.write_part("cpr", 0, columns)
    return folder


def test_what_load_knows_of_studies(tmp_path):
    digits = registry.get("permuted_digits").override(tasks=3)
    per_task = digits.steps_per_task
    steps = range(per_task, 3 * per_task + 1, per_task)
    a = make(tmp_path / "a", digits, [0, 1], steps)
    assert load(a).attrs["studies"][str(a)]["last_step"] == 3 * per_task
    assert (
        only(load(a)).expected == 3 * per_task and only(load(a), expected=10**9).expected == 10**9
    )
    ends = [2 * per_task, 3 * per_task]
    assert only(load(a), bin=2 * per_task).steps.tolist() == ends
    # Rows that are chosen keep it.
    frame = load(a)
    assert only(frame[frame.seed == 1]).expected == 3 * per_task
    # Other seeds of the same study, as long and as many methods as there may be.
    same = digits.override(seeds=7, data_folder=None)
    b = make(tmp_path / "b", same, [5], steps[:2])
    both = only(load([a, b]))
    assert both.seeds.tolist() == [0, 1, 5] and both.expected == 3 * per_task
    with pytest.raises(CurvesError, match=r"of seed 5 \(from step"):
        both.whole()


@pytest.mark.parametrize("changed", [{"tasks": 4}, {"cpr.max_reset": 0.5}, {"hidden": (8,)}])
def test_seeds_of_other_settings_are_refused(tmp_path, changed):
    digits = registry.get("permuted_digits").override(tasks=3)
    a = make(tmp_path / "a", digits, [0, 1], [100])
    b = make(tmp_path / "b", digits.override(**changed), [2], [100])
    field = next(iter(changed)).split(".")[-1]
    with pytest.raises(CurvesError, match=rf"both have cpr, with other settings \(.*{field}.*\)\."):
        curves(load([a, b]), "value")
    frame = load([a, b])
    frame.loc[frame.study == str(b), "method"] = "other"
    assert list(curves(frame, "value")) == ["cpr", "other"]


def test_an_experiment_that_is_not_known(tmp_path):
    for i, experiment in enumerate(("toy", {"kind": "of the future"}, {"kind": "control"})):
        folder = tmp_path / str(i)
        with Store.create(folder, STUDY | {"experiment": experiment}, {}) as store:
            rows = table(seeds=[0])
            store.write_part("cpr", 0, {n: rows[n].to_numpy() for n in rows if n != "method"})
        assert only(load(folder)).expected is None


def test_rows_that_are_there_twice():
    frame = tables(table(), table(seeds=[1], steps=[300]))
    with pytest.raises(CurvesError, match="more than one row of seed 1 at step 300"):
        curves(frame, "value")


def test_rows_after_the_end():
    with pytest.raises(CurvesError, match="rows up to step 600, but a finished run ends at 500"):
        curves(table(), "value", expected=500)


def test_seeds_that_disagree_about_tasks():
    frame = tables(table(), table(seeds=[2], per_task=200))
    with pytest.raises(CurvesError, match="disagree about the task of step 300"):
        curves(frame, "value")


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinity_is_refused(value):
    frame = table(value=lambda seed, step: np.where((seed == 1) & (step == 300), value, 0.0))
    message = rf"value of cpr is {value} at step 300 of seed 1: the run diverged.*replace\("
    with pytest.raises(CurvesError, match=message):
        curves(frame, "value", bin=200)
    frame["value"] = frame["value"].replace([np.inf, -np.inf], np.nan)
    assert np.isnan(only(frame).values[1, 2])


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (table(), {"metric": "values"}, "Unknown metric 'values'. Did you mean 'value'?"),
        (table(), {"metric": "seed"}, "Unknown metric 'seed'. Valid: value"),
        (table(value="text"), {}, "Unknown metric 'value'"),
        (table().drop(columns="task"), {}, r"lacks the columns \['task'\]"),
        (table()[:0], {}, "has no rows"),
        (table().assign(step=0.5), {}, "Column 'step' must hold whole numbers, got float64"),
        (table(steps=[-1, 1]), {}, "step below 0: -1"),
        (table(), {"bin": 0}, "bin must be a whole number of steps, at least 1; got 0"),
        (table(), {"bin": -5}, "at least 1; got -5"),
        (table(), {"bin": 2e6}, "at least 1; got 2000000.0"),
    ],
)
def test_what_is_refused(frame, options, message):
    with pytest.raises(CurvesError, match=message):
        curves(frame, **({"metric": "value"} | options))


def test_whole_numbers_and_truth_are_metrics():
    frame = table(value=lambda seed, step: seed, flag=lambda seed, step: step > 300)
    assert only(frame).values.dtype == np.float64
    assert curves(frame, "flag")["cpr"].values[0].tolist() == [0, 0, 0, 1, 1, 1]
    frame["value"] = frame["value"].astype("Int64")
    frame.loc[0, "value"] = pd.NA
    assert np.isnan(only(frame).values[0, 0])


def test_main_metric():
    assert main_metric(table(online_accuracy=0.5, test_accuracy=0.4, loss=1.0)) == "test_accuracy"
    assert main_metric(table(episode_return=NAN, online_accuracy=0.5)) == "online_accuracy"
    assert main_metric(table(episode_return=1, test_accuracy=0.5)) == "episode_return"
    assert main_metric(table(episode_return=1, latest_return=2)) == "latest_return"
    with pytest.raises(CurvesError, match=r"was measured\. Name one of: loss"):
        main_metric(table(loss=1.0))


def test_curves_by_hand_are_checked():
    a = np.arange(3)
    with pytest.raises(CurvesError, match=r"values must be \[seeds, points\] \[3, 3\]"):
        Curves("cpr", "value", a, a, a, np.ones((3, 2)))
    with pytest.raises(CurvesError, match="strictly ascending"):
        Curves("cpr", "value", a, a[::-1], a, np.ones((3, 3)))


steps = st.lists(st.integers(0, 60), min_size=1, max_size=20, unique=True)


@given(st.lists(steps, min_size=1, max_size=3), st.integers(1, 40), st.integers(60, 80) | st.none())
def test_bins_by_definition(rows, width, expected):
    """Every seed has rows of its own."""
    frames = [table(seeds=[i], steps=sorted(s), per_task=10) for i, s in enumerate(rows)]
    found = only(tables(*frames), bin=width, expected=expected)
    assert (np.diff(found.steps) > 0).all()
    for i, seed in enumerate(rows):
        reached = max(seed)
        for j, end in enumerate(found.steps):
            first = -(-end // width) * width - width
            members = [step + 1000.0 * i for step in seed if first < step <= end]
            value = np.mean(members) if members and reached >= end else NAN
            np.testing.assert_allclose(found.values[i, j], value)
    # No bin is left out that a seed has completed.
    for seed in rows:
        ends = {min(-(-step // width) * width, expected or 10**9) for step in seed}
        assert {end for end in ends if end <= max(seed)} <= set(found.steps)
