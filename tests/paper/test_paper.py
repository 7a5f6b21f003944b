"""The registry of the paper's tables and figures, its numbers, and what making them costs."""

import json
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from continual_learning.paper import artifacts, figures, folders, numbers, plan, runs, tables
from continual_learning.schema.errors import StudyError
from continual_learning.studies import registry
from tests.analysis import study_folders

ROOT = Path(__file__).parents[2]

# Of the paper: every label of a table or a figure, in the order in which they appear there.
LABELS = [
    "fig:flagship",
    "fig:ant_humanoid_main",
    "tab:continual_metaworld",
    "tab:continual_minatar",
    "fig:dormant_linearized",
    "fig:grad_norm",
    "fig:rr",
    "fig:metaworld_grid_2x5",
    "fig:perm_mnist",
    "fig:bigrollout",
    "fig:big_dormant",
    "fig:big_linear",
    "fig:big_batch_neurons",
    "tab:ppo_hyperparameters",
    "tab:network_architecture",
    "tab:hyper_sweep",
    "tab:cmw_sac_params",
    "tab:mt1_reset_params",
    "tab:minatar_reset_params",
    "tab:cmw_reset_params",
    "fig:util_comp",
    "tab:transform_perf",
    "fig:util_dist",
    "fig:sharpness_ablation",
    "tab:ant_iqr",
    "tab:hum_iqr",
    "tab:runtime",
    "fig:humanoid_peak_vs_final",
    "fig:humanoid_grad_norm",
    "fig:param_norm",
    "fig:infividual_network_grad_norm",
]
TABLES = [
    "ant_iqr",
    "hum_iqr",
    "continual_metaworld",
    "continual_minatar",
    "transform_perf",
    "runtime",
    "ppo_hyperparameters",
    "network_architecture",
    "hyper_sweep",
    "cmw_sac_params",
    "mt1_reset_params",
    "minatar_reset_params",
    "cmw_reset_params",
    "mt1_success",
    "cmw_forgetting",
    "minatar_forgetting",
    "mnist_shape_kappa",
]
OURS = [
    "mt1_success",
    "cmw_forgetting",
    "minatar_forgetting",
    "mnist_shape_kappa",
    "humanoid_rr",
    "mnist_sharpness",
    "mnist_shapes",
    "collapse_thresholds",
]
FIGURES = [
    "flagship",
    "ant_humanoid_main",
    "dormant_linearized",
    "grad_norm",
    "individual_network_grad_norm",
    "humanoid_grad_norm",
    "param_norm",
    "rr",
    "metaworld_grid_2x5",
    "perm_mnist",
    "bigrollout",
    "big_dormant",
    "big_linear",
    "util_comp",
    "util_dist",
    "sharpness_ablation",
    "humanoid_rr",
    "mnist_sharpness",
    "mnist_shapes",
    "humanoid_peak_vs_final",
    "collapse_thresholds",
]


def test_every_table_and_figure_has_an_id():
    assert [each.id for each in artifacts.of_kind("table")] == [*TABLES, "methods"]
    assert [each.id for each in artifacts.of_kind("figure")] == [*FIGURES, "curves"]
    assert set(artifacts.ARTIFACTS) == {*TABLES, *FIGURES}


def test_every_label_of_the_paper():
    """All but that of a float which only holds two others."""
    ours = {each.label for each in artifacts.ARTIFACTS.values()}
    assert ours == {*LABELS, None} - {"fig:big_batch_neurons"}
    assert len(set(LABELS)) == len(LABELS) == 31
    for each in artifacts.ARTIFACTS.values():
        if each.id not in ("individual_network_grad_norm", *OURS):
            assert each.label == f"{each.kind[:3]}:{each.id}"
    assert {artifacts.get(id).label for id in OURS} == {None}


def test_all_can_be_made():
    made = {**tables._MAKERS, **figures._MAKERS}
    assert made.keys() == (artifacts.ARTIFACTS | artifacts.GENERAL).keys()


def test_wrong_ids():
    with pytest.raises(
        StudyError, match=r"Unknown table 'ant_iq'\. Did you mean 'ant_iqr'.*hum_iqr"
    ):
        tables.make("ant_iq")
    with pytest.raises(StudyError, match=r"Unknown figure 'flagshp'\. Did you mean 'flagship'"):
        figures.make("flagshp")
    with pytest.raises(StudyError, match="flagship is a figure: `continual figure flagship`"):
        tables.make("flagship")
    with pytest.raises(StudyError, match="util_comp needs no study: leave out runs/a"):
        figures.make("util_comp", ["runs/a"])
    with pytest.raises(
        StudyError, match="needs the folder of a study of slippery_ant and slippery"
    ):
        figures.make("param_norm")


@pytest.mark.parametrize("artifact", artifacts.ARTIFACTS.values(), ids=lambda each: each.id)
def test_the_studies_that_are_needed_can_be_run(artifact):
    """At every scale, and with the checks that the registry leaves out."""
    folders = [study.folder for study in artifact.studies]
    assert len(set(folders)) == len(folders)
    for study in artifact.studies:
        for scale in plan.SCALES:
            spec = study.spec(scale).override()
            assert set(study.methods) <= set(spec.methods)
            assert all(runs.value(spec, name) == v for name, v in study.changes.items())
        if artifact.varied:
            assert study.spec().points % len(study.values(artifact.varied)) == 0


def test_larger_rollouts_leave_a_task_as_it_is():
    usual = registry.get("slippery_ant")
    for study in artifacts.get("bigrollout").studies:
        for scale in ("short", "paper"):
            assert study.spec(scale).steps == usual.at_scale(scale).steps


# The numbers of the paper ------------------------------------------------------------------------


def test_results_of_the_paper():
    """Some numbers of every table, read in the paper."""
    ant, humanoid = numbers.results("slippery_ant"), numbers.results("slippery_humanoid")
    assert ant["rows"]["cpr"]["average"] == [6051, 290, 320]
    assert ant["rows"]["shrink_perturb"]["final"] == [-341, 7820, 1656]
    assert humanoid["rows"]["regrama"]["peak"] == [4967, 1114, 2690]
    assert humanoid["rows"]["regrama"]["peak_step"] == 382_000_000
    assert numbers.results("continual_metaworld")["rows"]["muon"]["average"] == [0.179, 0.008]
    assert numbers.results("continual_metaworld")["rows"]["adam"]["final"] == [0.167, 0.023]
    assert numbers.results("continual_minatar")["rows"]["cbp"]["final"] == [5.8, 14.9]
    assert numbers.results("reset_shapes")["rows"]["exp"]["final"] == 7598.191
    assert numbers.results("runtime")["rows"]["cbp"] == {
        "median_hours": 1.34,
        "overhead_percent": 15,
    }


def test_settings_of_the_paper_are_complete():
    rows = {id: len(numbers.settings(id)) for id in TABLES[6:13]}
    assert rows == {
        "ppo_hyperparameters": 16,
        "network_architecture": 14,
        "hyper_sweep": 15,
        "cmw_sac_params": 15,
        "mt1_reset_params": 12,
        "minatar_reset_params": 15,
        "cmw_reset_params": 15,
    }


def test_the_wheel_has_the_numbers():
    files = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    for name in ("results.json", "settings.json", "rates.json"):
        assert f"continual_learning/paper/{name}" in files


def test_rates_are_those_that_were_measured():
    ant, mnist, minatar, metaworld = numbers.rates()
    rows = json.loads((ROOT / "results/ppo/h200_unrolled.json").read_text())
    [measured] = [row for row in rows if (row["seeds"], row["iterations"]) == (16, 6)]
    for name in ("experiment", "seeds", "environments"):
        assert ant[name] == measured[name]
    assert ant["steps_per_second"] == measured["adam_steps_per_second"]
    assert ant["changes"] == {"iterations_per_chunk": measured["iterations"]}
    assert registry.get("slippery_ant").value("physics") == measured["physics"]
    text = (ROOT / "results/permuted_mnist/README.md").read_text()
    assert "All of it took 539 s and 287 s" in text and 539 + 287 == 826
    # 200 tasks of 7,500 updates, five seeds, six methods.
    assert mnist["steps_per_second"] == round(200 * 7500 * 5 * 6 / 826)
    rows = json.loads((ROOT / "results/sac/h200.json").read_text())
    [measured] = [row for row in rows if row["seeds"] == 5]
    for name in ("experiment", "seeds", "environments"):
        assert minatar[name] == measured[name]
    assert minatar["steps_per_second"] == measured["cpr_steps_per_second"]
    rows = json.loads((ROOT / "results/continual_metaworld/h200_16cores.json").read_text())
    [measured] = [row for row in rows if (row["method"], row["seeds"]) == ("cpr", 5)]
    for name in ("experiment", "seeds", "environments"):
        assert metaworld[name] == measured[name]
    hours = measured["training_hours"] + measured["evaluation_hours"]
    assert metaworld["steps_per_second"] == round(10 * 1_000_000 * 5 / (hours * 3600))


# Costs -------------------------------------------------------------------------------------------


def test_costs_by_hand():
    found = plan.cost(artifacts.get("ant_iqr").studies, "paper")
    assert found.steps == 20 * 102 * 96 * 2048 * 15 * 6
    assert found.seconds == pytest.approx(found.steps / 7_069_761)
    assert found.at_least  # 15 seeds, where 16 were measured
    assert plan.cost(artifacts.get("ant_iqr").studies, "smoke").seconds is None
    assert plan.cost(artifacts.get("hum_iqr").studies, "paper").seconds is None
    assert plan.cost(artifacts.get("bigrollout").studies, "paper").seconds is None
    both = plan.cost(artifacts.get("param_norm").studies, "paper")
    assert both.steps == found.steps + 20 * 62 * 160 * 2048 * 15 * 6
    assert both.seconds is None
    mnist = plan.cost(artifacts.get("perm_mnist").studies, "paper")
    nine = plan.cost(artifacts.get("rr").studies, "paper")
    assert nine.steps == 9 * 20 * 102 * 96 * 2048 * 15
    assert nine.seconds == pytest.approx(nine.steps / 7_069_761) and not nine.at_least
    assert mnist.seconds == pytest.approx(826, abs=0.1) and not mnist.at_least


def test_the_plan(tmp_path):
    ant = study_folders.robots(tmp_path / "ant", seeds=15, per_task=1)
    short = study_folders.robots(
        tmp_path / "short",
        seeds=4,
        per_task=1,
        until=0.5,
        tasks=5,
        iterations_per_task=30,
        iterations_per_chunk=10,
    )
    odd = study_folders.robots(
        tmp_path / "odd",
        seeds=2,
        per_task=1,
        methods=["cpr"],
        physics="mjx",
        experiment="slippery_ant_shape",
    )
    held = [folders.Folder.read(path) for path in (ant, short, odd)]
    lines = plan.listing(artifacts.ARTIFACTS.values(), held).splitlines()
    at = {line.split()[0]: i for i, line in enumerate(lines) if not line.startswith(("  ", "("))}
    assert set(at) == {"id", *artifacts.ARTIFACTS}
    assert "36.1G, ≥ 1.4 h (1)" in lines[at["ant_iqr"]]
    assert lines[at["ant_iqr"] + 1] == f"  holds it: {ant} (paper, finished)"
    assert lines[at["ant_iqr"] + 2] == f"  holds it: {short} (short, unfinished)"
    assert lines[at["hum_iqr"] + 1].startswith("continual_metaworld  ")  # nothing holds it
    assert "continual_metaworld (7 methods)  " in lines[at["continual_metaworld"]]
    assert (
        "mt1 (6 methods), sequence = reach, push, pick-place, …, window-close  "
        in lines[at["mt1_success"]]
    )
    assert "slippery_ant_rho (cpr), cpr.max_reset = 0.001, 0.005, 0.01, …, 0.1" in lines[at["rr"]]
    assert "cpr.shape = sigmoid, exp, softplus, linear  " in lines[at["transform_perf"]]
    shapes = f"  holds it: {odd} (a budget of its own, finished, physics = mjx)"
    assert lines[at["transform_perf"] + 1] == shapes
    assert "not measured" in lines[at["hum_iqr"]]
    assert "continual bench methods slippery_humanoid" in lines[at["runtime"]]
    assert "no study" in lines[at["util_comp"]]
    assert lines[-4].startswith(
        "(1) 7,069,761 steps/s on one H200, 16 seeds at once, with iterations"
    )
    assert lines[-2].startswith("(3) 33,206 steps/s on one H200, 5 seeds at once (results/sac")


def test_finished(tmp_path):
    whole = study_folders.digits(tmp_path / "whole", seeds=2, tasks=3)
    assert plan.finished(folders.Folder.read(whole))
    behind = study_folders.robots(tmp_path / "behind", seeds=2, per_task=2, tasks=2, until=0.5)
    assert not plan.finished(folders.Folder.read(behind))
