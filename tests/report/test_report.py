"""The report without a browser: which studies go together, its numbers, its words, its data."""

from pathlib import Path

import numpy as np
import pytest

from continual_learning import report
from continual_learning.analysis.summary import Estimate
from continual_learning.diagnostics import metrics
from continual_learning.report import facts, series, studies
from continual_learning.report.head import notices
from continual_learning.schema.errors import StudyError
from continual_learning.studies.store.store import Store
from tests.report import report_study
from tests.report.report_pages import TABLE, by_hand, data_of, rows, text_of

# which studies go together -----------------------------------------------------------------------


def test_methods_in_different_folders_are_put_together(tmp_path):
    a = report_study.write(tmp_path / "a", methods=("adam",))
    b = report_study.write(tmp_path / "b", methods=("cpr",), title="Another title")
    [section] = studies.read([a, b])
    assert section.planned == {"adam": [0, 1, 2], "cpr": [0, 1, 2]}
    assert set(section.frame.method) == {"adam", "cpr"}
    assert (section.tasks, section.end) == (6, 6 * section.steps_per_task)


def test_seeds_in_different_folders_are_put_together(tmp_path):
    a = report_study.write(tmp_path / "a", methods=("cpr",), seeds=(0, 1))
    b = report_study.write(tmp_path / "b", methods=("cpr",), seeds=(7,))
    [section] = studies.read([a, b])
    assert section.planned == {"cpr": [0, 1, 7]}
    assert list(series.locate(section)) == ["cpr"]


def test_the_same_seeds_or_other_settings_stay_apart(tmp_path):
    same = [report_study.write(tmp_path / name, methods=("cpr", "adam")) for name in "ab"]
    [section] = studies.read(same)
    assert list(section.planned) == [f"{m} in {p}" for p in same for m in ("cpr", "adam")]
    assert any("shown once for each folder" in said for said in notices(section, []))
    other = report_study.ant(6, 12, 3, **{"cpr.max_reset": 0.5})
    c = report_study.write(tmp_path / "c", other, methods=("cpr",), seeds=(5,))
    [section] = studies.read([same[0], c])
    assert set(section.planned) == {f"cpr in {same[0]}", "adam", f"cpr in {c}"}


def test_densities_of_other_actions_are_warned_of(tmp_path):
    """Before any update all ratios are 1, unless the densities are of other actions."""
    folder = report_study.write(tmp_path / "a", methods=("adam", "cpr"))
    [section] = studies.read([folder])
    assert not any("log densities" in said for said in notices(section, []))
    off = section.frame.method == "cpr"
    section.frame["initial_clip_fraction"] = np.where(off, 0.25, 0.0)
    [said] = [said for said in notices(section, []) if "log densities" in said]
    assert said.startswith("CPR: before the first update on a rollout 25.0% of the ratios")


def test_other_experiments_are_sections_of_their_own(tmp_path):
    a = report_study.write(tmp_path / "a", methods=("adam",))
    b = report_study.write(tmp_path / "b", report_study.ant(4, 12, 2), methods=("adam",))
    assert [section.tasks for section in studies.read([a, b])] == [6, 4]
    page = report.make([a, b])
    assert len(data_of(page)["sections"]) == 2
    assert page.count("<section") == page.count("<h2>") == 2
    assert "2 experiments" in text_of(page)
    titles = [section.title for section in studies.read([a, b])]
    assert all(title.endswith(f" (tasks = {n})") for title, n in zip(titles, (6, 4), strict=True))
    assert studies.read([a])[0].title in titles[0] != titles[1]


def test_wrong_folders(tmp_path):
    folder = report_study.write(tmp_path / "a", methods=("adam",))
    with pytest.raises(StudyError, match="given twice"):
        studies.read([folder, folder / ".." / "a"])
    with pytest.raises(StudyError, match="at least one"):
        studies.read([])
    with pytest.raises(RuntimeError, match="it has no study"):
        studies.read([tmp_path])


# what is said plainly ----------------------------------------------------------------------------


def test_a_finished_study_has_no_notices(tmp_path):
    page = report.make([report_study.write(tmp_path / "a")])
    assert "State finished" in text_of(page)
    assert 'class="notices"' not in page


def test_a_study_that_runs(tmp_path):
    folder = report_study.write(tmp_path / "a", until={"cpr": 0.5, "redo": 0})
    text = text_of(report.make([folder]))
    assert "not finished, 62% of all steps" in text
    assert "CPR is not finished" in text and "(50%)" in text
    assert "No rows yet: ReDo." in text
    assert "Not compared, since incomplete: CPR." in text
    assert "newest rows of" in text


def test_a_method_that_was_ended_by_collapse(tmp_path):
    experiment = report_study.ant(
        tasks=6, iterations=12, seeds=3, collapse={"drop": 10, "stop_seeds": 2}
    )
    folder = report_study.write(tmp_path / "a", experiment, ("adam",), until={"adam": 0.5})
    [section] = studies.read([folder])
    for seeds, words in ((1, "is not finished"), (2, "was ended when 2 seeds had collapsed")):
        fallen = (section.frame.seed < seeds).astype(int)
        changed = section._replace(frame=section.frame.assign(collapse=fallen))
        methods = facts.facts(changed, series.locate(changed), "episode_return")
        assert any(f"Adam {words}" in each for each in notices(changed, methods))


def test_a_study_without_rows(tmp_path):
    Store.create(tmp_path / "a", {"experiment": "toy", "methods": ["cpr"]}, {}).close()
    page = report.make([tmp_path / "a"])
    assert "has no rows yet" in text_of(page)
    assert data_of(page)["sections"] == [None]


def test_seeds_that_are_behind_or_missing(tmp_path):
    section = by_hand(
        tmp_path / "a", cpr=rows({0: [0.1] * 8, 1: [0.2] * 5}), adam=rows({0: [0.3] * 8})
    )
    said = " ".join(notices(section, facts.facts(section, series.locate(section), "test_accuracy")))
    assert "not equally far: from step 5 (seed 1) to 8 (seed 0)" in said
    assert "Adam has no rows of the seeds 1; its numbers cover the other 1." in said


def test_values_that_are_not_finite(tmp_path):
    loss = np.array([1.0, np.inf, 2, 3, 4, -np.inf, 5, np.nan])
    section = by_hand(tmp_path / "a", cpr=rows({0: [0.1, np.nan] + [0.2] * 6}, test_loss=loss))
    assert "2 values of test_loss are infinite; they are shown as missing." in section.notices
    [method] = facts.facts(section, series.locate(section), "test_accuracy")
    assert method.gaps == 1
    assert method.ours.average.value == pytest.approx((0.1 + 6 * 0.2) / 7)
    assert any("1 of 8 points lack a value" in each for each in notices(section, [method]))
    report.make([tmp_path / "a"])


def test_metrics_of_its_own(tmp_path):
    columns = rows({0: [1.0] * 8})
    columns["<b>mine"] = columns.pop("test_accuracy")
    columns["note"] = np.array(["x"] * 8)
    columns["whole"] = np.arange(8) > 3
    folder = report_study.store(tmp_path / "a", TABLE, {"cpr": columns})
    page = report.make([folder])
    assert "Not drawn, since they hold no numbers: note." in text_of(page)
    assert data_of(page)["sections"][0]["main"] == "<b>mine"
    assert "There is no rule for &lt;b&gt;mine" in page and "<b>mine" not in page


# numbers -----------------------------------------------------------------------------------------


def test_no_episode_has_ended_yet(tmp_path):
    folder = report_study.write(tmp_path / "a", methods=("cpr",))
    [section] = studies.read([folder])
    columns = {n: v.to_numpy() for n, v in section.frame.drop(columns="method").items()}
    columns["episode_return"] = np.full(len(section.frame), np.nan)
    other = report_study.store(tmp_path / "b", TABLE, {"cpr": columns})
    page = report.make([other])
    assert "No return or accuracy was measured: methods are judged by Reward." in text_of(page)
    [data] = data_of(page)["sections"]
    names = [metric["name"] for group in data["groups"] for metric in group["metrics"]]
    assert data["main"] == "reward" in names
    assert "episode_return" not in names


def test_the_best_method_by_hand(tmp_path):
    section = by_hand(
        tmp_path / "a",
        cpr=rows({0: [0.8] * 8, 1: [0.9] * 8}),
        adam=rows({0: [0.1] * 8, 1: [0.3] * 8}),
        cbp=rows({0: [0.85] * 8, 1: [0.87] * 8}),
    )
    methods = facts.facts(section, series.locate(section), "test_accuracy")
    best = facts.best(methods, "test_accuracy")
    assert [name for name, _ in best.ranking] == ["cbp", "cpr", "adam"]
    assert best.ranking[0][1] == pytest.approx(Estimate(0.86, 0.85, 0.87))
    assert best.rivals == ["cpr"]
    assert facts.best([m for m in methods if m.name != "cpr"], "test_accuracy").rivals == []
    assert [name for name, _ in facts.best(methods, "test_loss").ranking] == ["adam", "cpr", "cbp"]


def test_a_single_seed_does_not_win(tmp_path):
    section = by_hand(tmp_path / "a", cpr=rows({0: [0.9] * 8}), adam=rows({0: [0.1] * 8}))
    best = facts.best(
        facts.facts(section, series.locate(section), "test_accuracy"), "test_accuracy"
    )
    assert best.ranking[0][0] == "cpr" and best.rivals is None
    assert "No clear winner" in text_of(report.make([tmp_path / "a"]))


def test_methods_that_are_not_finished_are_compared_as_far_as_all_are(tmp_path):
    values = {"cpr": [0.9, 0.9, 0.1, 0.1], "adam": [0.2, 0.4]}
    section = by_hand(tmp_path / "a", **{m: rows({0: v, 1: v}) for m, v in values.items()})
    section = section._replace(steps_per_task=2)
    best = facts.best(
        facts.facts(section, series.locate(section), "test_accuracy"), "test_accuracy"
    )
    assert best.shared.tolist() == [1, 2]
    assert [(name, e.value) for name, e in best.ranking] == [
        ("cpr", 0.9),
        ("adam", pytest.approx(0.3)),
    ]


def test_methods_are_compared_at_the_points_that_all_have(tmp_path):
    gap = [np.nan, 0.1, *[0.5] * 6]
    section = by_hand(
        tmp_path / "a",
        cpr=rows({0: [0.9, 0.9, *[0.4] * 6], 1: [0.9, 0.9, *[0.4] * 6]}),
        adam=rows({0: gap, 1: gap[::-1]}),
    )
    methods = facts.facts(section, series.locate(section), "test_accuracy")
    best = facts.best(methods, "test_accuracy")
    assert best.shared.tolist() == [2, 3, 4, 5, 6, 7]
    cpr, adam = (0.9 + 5 * 0.4) / 6, (0.1 + 5 * 0.5) / 6
    assert dict((name, e.value) for name, e in best.ranking) == pytest.approx(
        {"cpr": cpr, "adam": adam}
    )
    assert facts.best([], "test_accuracy").ranking == []


def test_plasticity_and_adaptation_by_hand(tmp_path):
    values = [0.2, 0.8, 0.4, 0.9, 0.3, 0.7, 0.1, 0.5]  # means of tasks: 0.5, 0.65, 0.5, 0.3
    dormant = np.arange(8) / 10
    section = by_hand(tmp_path / "a", cpr=rows({3: values}, dormant_ratio=dormant))
    [method] = facts.facts(section, series.locate(section), "test_accuracy")
    found = {name: estimate.value for name, estimate in method.measures.items()}
    assert (method.tasks, method.window) == (4, 1)
    assert found == pytest.approx(
        {
            "first": 0.5,
            "last": 0.3,
            "change": -0.2,
            "dormant": 0.65,
            "end": (0.8 + 0.9 + 0.7 + 0.5) / 4,
            "area": (0.5 + 0.65 + 0.5 + 0.3) / 4,
            "drop": (0.4 + 0.6 + 0.6) / 3,
            "recovery_steps": 2.0,
            "recovered": 1 / 3,
        }
    )


def test_collapses_by_hand(tmp_path):
    million, total = 1_000_000, 40
    returns = {0: [9000.0] * total, 1: [10500.0] * 20 + [2400.0] * 20, 2: [100.0] * 20 + [1.0] * 20}
    columns = {
        "seed": np.repeat([0, 1, 2], total),
        "step": np.tile(np.arange(1, total + 1) * million, 3),
        "task": np.tile(np.arange(total) // 10, 3),
        "episode_return": np.concatenate([returns[i] for i in range(3)]),
    }
    table = {**TABLE, "kind": "control"}
    [section] = studies.read([report_study.store(tmp_path / "a", table, {"cpr": columns})])
    [method] = facts.facts(section, series.locate(section), "episode_return")
    found = {rule: {c.run for c in each} for rule, each in method.collapsed.items()}
    assert found == {"D = 8,000": {1}, "relative D": {2}, "D = 4,000": {1}, "D = 10,000": set()}
    text = text_of(report.make([tmp_path / "a"]))
    assert "Collapses 1 of 3 runs" in text
    assert "As the paper's scripts" in text.replace("&#x27;", "'")


def test_collapse_of_an_accuracy_is_relative(tmp_path):
    high, low = [0.9] * 4, [0.44] * 4
    section = by_hand(tmp_path / "a", cpr=rows({0: high + low, 1: high + [0.5] * 4}))
    [method] = facts.facts(section, series.locate(section), "test_accuracy")
    assert [(c.run, c.start, c.open) for c in method.collapsed["below half"]] == [(0, 4, True)]


def test_metrics_have_names_and_groups():
    assert metrics.metric("policy_dormant_ratio").title == "Dormant units, policy"
    assert metrics.metric("policy_loss").title == "Policy loss"
    assert metrics.metric("critic_2_dormant_ratio").title == "Dormant units, critic_2"
    one, seen = metrics.metric("eval_asterix"), metrics.metric("eval_seen")
    assert (one.title, seen.title) == ("Evaluation, asterix", "Evaluation")
    assert "on this task" in one.text and "network" not in one.text and "met so far" in seen.text
    push, all_tasks = map(metrics.metric, ("eval_push_success", "eval_seen_success_ever"))
    assert push.title == "Success in evaluation, push" and push.share and "solved" in push.text
    assert all_tasks.title == "Ever a success in evaluation" and all_tasks.share
    assert metrics.grouped(["srank", "eval_asterix", "eval_seen", "alpha"]) == {
        "Performance": ["eval_seen", "eval_asterix"],
        "Ranks of the features": ["srank"],
        "Updates": ["alpha"],
    }
    assert metrics.metric("dormant_ratio").share and not metrics.metric("srank").share
    assert metrics.metric("policy_mystery").title == "policy_mystery"
    groups = metrics.grouped(["mine", "value_dormant_ratio", "dormant_ratio", "test_accuracy"])
    assert groups == {
        "Performance": ["test_accuracy"],
        "Units": ["value_dormant_ratio", "dormant_ratio"],
        "Other": ["mine"],
    }


def test_the_page_stays_small():
    assert series.points(1) == series.MOST
    assert series.points(10**9) == series.LEAST
    assert 4000 * series.points(4000) * 2 * 2 * 4 / 3 <= series.BYTES


# the folder of the package -----------------------------------------------------------------------


def test_the_wheel_has_all_files_of_the_page(tmp_path):
    import zipfile

    from hatchling.builders.wheel import WheelBuilder

    root = Path(__file__).parents[2]
    [wheel] = WheelBuilder(str(root)).build(directory=str(tmp_path), versions=["standard"])
    folder = root / "continual_learning" / "report"
    files = {file.name for file in folder.iterdir() if file.is_file()}
    assert {"page.html", "page.css", "chart.js"} < files
    prefix = "continual_learning/report/"
    assert {prefix + file for file in files} <= set(zipfile.ZipFile(wheel).namelist())
