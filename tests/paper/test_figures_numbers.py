"""Figures: what is drawn, by hand, also of studies that are not whole."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

from continual_learning.analysis import style
from continual_learning.analysis.curves import CurvesError
from continual_learning.paper import figures, tables
from continual_learning.paper.figures import ablations
from continual_learning.studies import registry
from tests.analysis import study_folders
from tests.paper.charts import notes_of, rows_of, values_of

TASK = 102 * 96 * 2048


def constant(path: Path, experiment: str = "slippery_ant", **values) -> Path:
    """Two tasks of two rows; CPR's columns are `values` times 1, 2, 3 and 4, by seed."""
    spec = registry.get(experiment).override(
        tasks=2, iterations_per_task=100, iterations_per_chunk=1
    )
    return study_folders.write(
        path,
        spec,
        lambda method, seed: {name: np.full(4, (seed + 1) * v) for name, v in values.items()},
        steps=np.arange(1, 5) * spec.steps_per_task // 2,
        methods=["cpr"],
        seeds=range(4),
    )


# Numbers by hand ---------------------------------------------------------------------------------


def test_curves_by_hand(tmp_path):
    """Of 1, 2, 3, 4 the IQM is 2.5, the quarters are at 1.75 and 3.25."""
    chart = figures.make("grad_norm", [constant(tmp_path / "x", policy_gradient_norm=1.0)])
    rows = [row for row in rows_of(chart) if "iqm" in row]
    assert [row["step"] for row in rows] == [9.8304, 19.661, 29.491, 39.322]
    for row in rows:
        assert (row["method"], row["iqm"], row["low"], row["high"]) == ("CPR", 2.5, 1.75, 3.25)
    [boundary] = [row for row in rows_of(chart) if list(row) == ["step"]]
    assert boundary["step"] == 19.661
    [axis] = {axis for axis in values_of(chart.to_dict(), "title") if "(M)" in str(axis)}
    assert axis == "environment steps (M)"
    assert "4 seeds of 39.3M environment steps" in notes_of(chart)
    assert "Not in this study: CBP, ReDo, ReGraMa, Shrink & Perturb, Adam." in notes_of(chart)


def test_norms_are_the_mean_of_both_networks(tmp_path):
    columns = {"policy_parameter_norm": 1.0, "value_parameter_norm": 3.0}
    paths = [
        constant(tmp_path / name, name, **columns) for name in ("slippery_ant", "slippery_humanoid")
    ]
    rows = [row for row in rows_of(figures.make("param_norm", paths)) if "iqm" in row]
    assert {row["iqm"] for row in rows} == {5.0}  # 2.5 and 7.5


def test_peak_final_and_collapse_by_hand(tmp_path):
    """CPR rises; two of four seeds of Adam fall by 9,000 and stay there, one recovers."""
    spec = registry.get("slippery_ant").override(
        tasks=2, iterations_per_task=12, iterations_per_chunk=6
    )
    rows = 24

    def columns(method, seed):
        returns = np.full(rows, 9000.0)
        if method == "cpr":
            returns = np.linspace(0, 23, rows) * 100
        elif seed < 2:
            returns[2:] = 0.0
        elif seed == 2:
            returns[5:10] = 0.0  # less than 4M steps
        return {"episode_return": returns}

    path = study_folders.write(
        tmp_path / "x",
        spec,
        columns,
        steps=np.arange(1, rows + 1) * spec.agent.row_steps(spec.stream),
        methods=["adam", "cpr"],
        seeds=range(4),
    )
    chart = figures.make("flagship", [path])
    ours = {
        (row["method"], row["what"]): (row["value"], row["low"], row["high"])
        for row in rows_of(chart)
        if row.get("source") == "ours"
    }
    assert ours["CPR", "peak"] == ours["CPR", "final"] == (2300, 2300, 2300)
    assert ours["Adam", "peak"] == (9000, 9000, 9000)
    assert ours["Adam", "final"] == (4500, 0, 9000)  # of 0, 0, 9000, 9000
    collapses = {row["method"]: row["seeds"] for row in rows_of(chart) if "seeds" in row}
    assert collapses == {"Adam": 2, "CPR": 0}
    paper = {
        (row["method"], row["what"]): (row["value"], row["low"], row["high"])
        for row in rows_of(chart)
        if row.get("source") == "paper"
    }
    assert paper["ReDo", "final"] == (3883, 3883 - 5731, 3883 + 1621)
    thresholds = {
        (row["method"], row["drop"]): row["seeds"]
        for row in rows_of(figures.make("collapse_thresholds", [path]))
    }
    assert thresholds["Adam", "8,000"] == thresholds["Adam", "90%"] == 2
    assert thresholds["Adam", "10,000"] == 0
    assert "No drop of 10,000 is possible here: returns span 9,000." in notes_of(
        figures.make("collapse_thresholds", [path])
    )


def test_shapes_by_hand():
    rows = rows_of(figures.make("util_comp"))
    phi = {(row["shape"], row["utility"]): row["phi"] for row in rows}
    assert {phi[shape, 0.9] for shape in ("sigmoid", "exp", "softplus", "linear")} == {1}
    assert phi["sigmoid", 1.1] == pytest.approx(2 / (1 + math.exp(1.6)), rel=1e-4)
    assert phi["exp", 1.1] == pytest.approx(math.exp(-1.6), rel=1e-4)
    softplus = math.log(1 + math.exp(-1.6)) / math.log(2)
    assert phi["softplus", 1.1] == pytest.approx(softplus, rel=1e-4)
    assert phi["linear", 1.05] == pytest.approx(0.2, rel=1e-4)
    assert phi["linear", 1.1] == 0


def test_ablations_by_hand(tmp_path):
    paths = []
    for value in (0.05, 0.001):
        spec = registry.get("slippery_ant").override(tasks=2, **{"cpr.max_reset": value})
        paths.append(
            study_folders.write(
                tmp_path / str(value),
                spec,
                lambda method, seed, value=value: {"episode_return": np.full(2, 1000 * value)},
                steps=[TASK, 2 * TASK],
                methods=["cpr"],
            )
        )
    chart = figures.make("rr", paths)
    ends = [(row["value"], row["iqm"]) for row in rows_of(chart) if "iqm" in row]
    assert ends == [("0.001", 1), ("0.001", 1), ("0.05", 50), ("0.05", 50)]
    assert notes_of(chart).startswith(
        "Each value: 3 seeds of 40.1M environment steps. episode_return, as in the paper: the mean "
    )


@pytest.mark.parametrize("id", ["flagship", "collapse_thresholds", "rr"])
def test_both_returns_are_drawn_each_by_its_name(tmp_path, id):
    """Where a study has both; a figure of norms is drawn once."""
    experiment = "slippery_ant_rho" if id == "rr" else "slippery_ant"
    values = {"latest_return": 3000.0, "episode_return": 1000.0, "policy_gradient_norm": 1.0}
    path = constant(tmp_path / "x", experiment, **values)
    spec = figures.make(id, [path]).to_dict()
    assert [each["title"]["text"] for each in spec["vconcat"]] == [
        "latest_return",
        "episode_return",
    ]
    notes = " ".join(spec["title"]["text"])
    assert (
        notes.count("latest_return: the mean")
        == notes.count("episode_return, as in the paper")
        == 1
    )
    # The IQM of a seed times 1, 2, 3 and 4 is that of 2.5.
    values = {row.get("value", row.get("iqm")) for row in rows_of(figures.make(id, [path]))}
    assert id == "collapse_thresholds" or values >= ({7500, 2500} if id == "flagship" else set())


def test_shapes_and_sharpness_by_hand(tmp_path):
    """Lanes of one folder; in `studies` all lanes of a seed are alike."""
    spec = registry.get("permuted_mnist_shape_kappa")
    spec = spec.override(tasks=2, lanes={"shape": [3, 0], "sharpness": [16.0, math.inf]})
    lanes = iter([0.1, 0.2, 0.3, 0.4])  # each lane once: one seed
    path = study_folders.write(
        tmp_path / "x",
        spec,
        lambda method, seed: {"test_accuracy": np.full(2, next(lanes))},
        steps=[7500, 15000],
        methods=["cpr"],
        seeds=[0],
    )
    chart = figures.make("mnist_shapes", [path])
    found = [(row["shape"], row["value"], row["return_"]) for row in rows_of(chart)]
    assert found == [
        ("linear", "16", 0.1),
        ("linear", "∞", 0.2),
        ("sigmoid", "16", 0.3),
        ("sigmoid", "∞", 0.4),
    ]
    table = tables.make("mnist_shape_kappa", [path])
    assert [row[:2] for row in table.rows] == [
        ("Linear", "16"),
        ("Linear", "∞"),
        ("Sigmoid", "16"),
        ("Sigmoid", "∞"),
    ]
    assert [cell.value for _, _, cell, *_ in table.rows] == [0.1, 0.2, 0.3, 0.4]
    assert [cell.best for _, _, cell, *_ in table.rows] == [False, False, False, True]


@pytest.mark.parametrize("count", [1, 2, 5, 12])
def test_values_have_colors_of_their_own(count):
    shades = ablations._shades([str(i) for i in range(count)])
    assert len(set(shades.values())) == count
    assert shades["0"] == "#440154"
    assert all(re.fullmatch("#[0-9a-f]{6}", color) for color in shades.values())


# What is not whole -------------------------------------------------------------------------------


def test_an_unfinished_study(tmp_path):
    path = study_folders.robots(tmp_path / "x", seeds=2, per_task=2, tasks=4, until=0.5)
    chart = figures.make("flagship", [path])
    assert "Unfinished, of 80.2M steps: Adam (40.1M)" in notes_of(chart)
    lines = [row for row in rows_of(figures.make("grad_norm", [path])) if "iqm" in row]
    assert max(row["step"] for row in lines) < 41


def test_returns_that_were_not_measured(tmp_path):
    spec = registry.get("slippery_ant").override(tasks=2)
    path = study_folders.write(
        tmp_path / "x",
        spec,
        lambda m, s: {"episode_return": np.array([np.nan if s == 0 else 1.0, 2.0, np.nan, 4.0])},
        steps=np.arange(1, 5) * TASK // 2,
        methods=["adam", "cpr"],
        seeds=(0, 1),
    )
    chart = figures.make("flagship", [path])
    assert "no value there: Adam 2 of 4, CPR 2 of 4." in notes_of(chart)
    peaks = [row for row in rows_of(chart) if row.get("source") == "ours"]
    assert {row["value"] for row in peaks} == {4}


def test_no_episode_has_ended(tmp_path):
    """As in a study of seconds: nothing to show, and said to be so."""
    path = constant(tmp_path / "x", episode_return=np.nan)
    chart = figures.make("flagship", [path])
    assert not [row for row in rows_of(chart) if row.get("source") == "ours"]
    assert "CPR 4 of 4" in notes_of(chart) and "No return was measured." in notes_of(chart)
    assert "ρ 0.015 4 of 4" in notes_of(figures.make("rr", [path]))
    figures.save(chart, tmp_path / "x.svg")
    assert {row[2] for row in tables.make("ant_iqr", [path]).rows if row[1] != "paper"} == {"—"}


def test_a_study_without_diagnostics(tmp_path):
    path = constant(tmp_path / "x", episode_return=1.0)
    with pytest.raises(CurvesError, match="Unknown metric 'dormant_ratio'"):
        figures.make("dormant_linearized", [path])


def test_a_method_of_ones_own(tmp_path):
    """It has a color and a row of its own."""
    spec = registry.get("slippery_ant").override(tasks=2)
    spec = spec.override(methods={**spec.methods, "mine": spec.methods["adam"]})
    path = study_folders.write(
        tmp_path / "x",
        spec,
        lambda m, s: {"episode_return": np.ones(2)},
        steps=[TASK, 2 * TASK],
        methods=["mine", "adam"],
    )
    rows = rows_of(figures.make("flagship", [path]))
    assert {row["color"] for row in rows if row["method"] == "mine"} == {style.OTHERS[0]}
