"""Figures: what is drawn, by hand; that all can be made; that they can be written."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from continual_learning.analysis import figures, style, tables
from continual_learning.analysis.curves import CurvesError
from continual_learning.analysis.figures import ablations, theme
from continual_learning.analysis.paper import artefacts
from continual_learning.experiments import registry
from continual_learning.experiments.errors import StudyError
from tests.analysis import study_folders

EVERY = [each.id for each in artefacts.of_kind("figure")]
TASK = 102 * 96 * 2048


def histograms(method: str) -> dict:
    """The part of a state of two seeds that figures read; half of Adam's units do nothing."""
    counts = np.zeros((2, 3, 40), np.int32)
    counts[:, :, 10] = 30
    counts[:, :, 0] = 30 if method == "adam" else 0
    log = {"histogram": counts, "numbers": np.zeros((2, 3, 7), np.float32)}
    each = {"log": log, "calls": np.full(2, 500, np.int32)}
    return {"optimizers": {"policy": each, "value": each}, "iteration": np.zeros(2, np.int32)}


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    """Small studies of all that there is: {experiment or varied field: folders}."""
    root = tmp_path_factory.mktemp("studies")
    small = {"seeds": 4, "per_task": 2, "tasks": 3}
    found = {
        "slippery_ant": [study_folders.robots(root / "ant", **small)],
        "slippery_humanoid": [
            study_folders.robots(root / "humanoid", "slippery_humanoid", **small)
        ],
        "permuted_mnist": [study_folders.digits(root / "mnist", seeds=4, tasks=4)],
        "util_dist": [
            study_folders.write(
                root / "utilities",
                registry.get("slippery_ant"),
                lambda method, seed: {"episode_return": np.ones(1)},
                steps=[TASK],
                methods=["adam", "cpr"],
                seeds=(0, 1),
                state=histograms,
            )
        ],
    }
    found["sequence"] = [
        study_folders.arms(root / task, "mt1", seeds=3, sequence=(task,))
        for task in ("reach", "push", "plate-slide")
    ]
    for id in ("rr", "sharpness_ablation", "humanoid_rr", "bigrollout"):
        found |= {
            study.folder: [
                study_folders.robots(
                    root / study.folder, study.spec(), methods=study.methods, **small
                )
            ]
            for study in artefacts.get(id).studies
        }
    for id in ("mnist_sharpness", "mnist_shapes"):
        [study] = artefacts.get(id).studies
        spec = study.spec()
        found[study.folder] = [
            study_folders.digits(root / study.folder, spec, methods=study.methods, seeds=3, tasks=3)
        ]
    return found


def folders_of(id: str, studies: dict) -> list[Path]:
    artefact = artefacts.get(id)
    if artefact.id in studies:
        return studies[artefact.id]
    if artefact.varied == "sequence":
        return studies["sequence"]
    return [path for study in artefact.studies for path in studies[study.folder]]


def rows_of(chart) -> list[dict]:
    """All data of a chart."""
    return [row for rows in chart.to_dict().get("datasets", {}).values() for row in rows]


def notes_of(chart) -> str:
    return " ".join(chart.to_dict()["title"]["text"])


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


# All of them -------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", EVERY)
def test_every_figure(id, studies):
    spec = figures.make(id, folders_of(id, studies)).to_dict()  # checks it against the schema
    assert spec["config"]["font"].startswith("Helvetica")
    assert spec["config"]["background"] == "white"
    text = json.dumps(spec)
    assert "NaN" not in text
    widths = [w for w in _values(spec, "width") if isinstance(w, int)]
    assert 0 < max(widths) <= theme.WIDTH
    assert spec["title"]["text"]  # what the numbers are of
    used = set(re.findall(r'"(#[0-9A-Fa-f]{6})"', text))
    others = {c for m, c in style.COLOURS.items() if m not in study_folders.METHODS}
    assert not used & others


def _values(tree, key) -> list:
    if isinstance(tree, dict):
        here = [tree[key]] if key in tree else []
        return here + [v for t in tree.values() for v in _values(t, key)]
    return [v for t in tree for v in _values(t, key)] if isinstance(tree, list) else []


@pytest.mark.parametrize("id", ["ant_humanoid_main", "dormant_linearized", "perm_mnist"])
def test_one_colour_per_method(id, studies):
    chart = figures.make(id, folders_of(id, studies)).to_dict()
    scales = [s for s in _values(chart, "scale") if s and "range" in s and "Adam" in s["domain"]]
    assert scales
    for scale in scales:
        colours = dict(zip(scale["domain"], scale["range"], strict=True))
        assert colours == {style.name(m): style.COLOURS[m] for m in study_folders.METHODS}


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
    [axis] = {axis for axis in _values(chart.to_dict(), "title") if "(M)" in str(axis)}
    assert axis == "environment steps (M)"
    assert "4 seeds of 39.3M environment steps" in notes_of(chart)
    assert "Not in this study: CBP, ReDo, ReGraMa, Shrink & Perturb, Adam." in notes_of(chart)


def test_bands_are_left_out_where_the_paper_leaves_them_out(studies):
    chart = figures.make("ant_humanoid_main", folders_of("ant_humanoid_main", studies))
    assert "area" not in {m["type"] for m in _values(chart.to_dict(), "mark")}
    assert "Bands" not in notes_of(chart)


def test_norms_are_the_mean_of_both_networks(tmp_path):
    columns = {"policy_parameter_norm": 1.0, "value_parameter_norm": 3.0}
    paths = [
        constant(tmp_path / name, name, **columns) for name in ("slippery_ant", "slippery_humanoid")
    ]
    rows = [row for row in rows_of(figures.make("param_norm", paths)) if "iqm" in row]
    assert {row["iqm"] for row in rows} == {5.0}  # 2.5 and 7.5


def test_peak_final_and_collapse_by_hand(tmp_path):
    """CPR rises; two of four seeds of Adam fall by 9,000 and stay there, one recovers."""
    spec = registry.get("slippery_ant").override(tasks=2, iterations_per_task=12)
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
        steps=np.arange(1, rows + 1) * spec.rollout * spec.environments,
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


def test_utilities_by_hand(studies):
    chart = figures.make("util_dist", studies["util_dist"])
    share = {(row["method"], row["utility"]): row["share"] for row in rows_of(chart)}
    assert (share["CPR", 1.0], share["CPR", 0.0]) == (1, 0)
    assert (share["Adam", 1.0], share["Adam", 0.0]) == (0.5, 0.5)
    assert share["Adam", 4.0] == share["Adam", 3.9] == 0
    assert "CPR 2 seeds and 500 updates, Adam 2 seeds and 500 updates" in notes_of(chart)


def test_utilities_need_checkpoints(studies):
    with pytest.raises(StudyError, match="util_dist is made of the histograms in a study's check"):
        figures.make("util_dist", studies["slippery_ant"])


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
        "Each value: 3 seeds of 40.1M environment steps. Return: of the episodes that ended"
    )


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
def test_values_have_colours_of_their_own(count):
    shades = ablations._shades([str(i) for i in range(count)])
    assert len(set(shades.values())) == count
    assert shades["0"] == "#440154"
    assert all(re.fullmatch("#[0-9a-f]{6}", colour) for colour in shades.values())


def test_points_of_an_ablation(studies):
    chart = figures.make("sharpness_ablation", studies["slippery_ant_kappa"])
    rows = [row for row in rows_of(chart) if "statistic" in row]
    order = list(dict.fromkeys(row["value"] for row in rows))
    assert order == ["0", "0.5", "1", "2", "4", "8", "12", "16", "20", "∞"]
    assert all(row["low"] <= row["return_"] <= row["high"] for row in rows)


def test_rollouts_are_named_by_their_steps(studies):
    rows = rows_of(figures.make("big_dormant", folders_of("big_dormant", studies)))
    assert {row["value"] for row in rows if "value" in row} == {"196,608", "589,824", "1,179,648"}


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
    """It has a colour and a row of its own."""
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
    assert {row["colour"] for row in rows if row["method"] == "mine"} == {style.OTHERS[0]}


# Files -------------------------------------------------------------------------------------------


def test_files(tmp_path, studies):
    chart = figures.make("flagship", studies["slippery_ant"])
    begins = {"svg": b"<svg", "pdf": b"%PDF", "png": b"\x89PNG"}
    for form, begin in begins.items():
        figures.save(chart, tmp_path / "new" / f"x.{form}")
        assert (tmp_path / "new" / f"x.{form}").read_bytes().startswith(begin)
    svg = (tmp_path / "new/x.svg").read_text()
    assert "Shrink &amp; Perturb" in svg and "seeds that collapsed" in svg
    width = float(re.search(r'width="(\d+)"', svg)[1])
    assert width <= theme.WIDTH * 1.05


def test_a_page_holds_all_it_needs(tmp_path):
    figures.save(figures.make("util_comp"), tmp_path / "x.html")
    page = (tmp_path / "x.html").read_text()
    assert not re.search(r"<(script|link)[^>]*(src|href)=", page)
    assert "</html>" in page


def test_hostile_names_stay_text(tmp_path):
    """A hyper-parameter from the metrics is part of a method's name."""
    hostile = "</script><script>alert(1)</script>"
    spec = registry.get("slippery_ant").override(tasks=2)
    path = study_folders.write(
        tmp_path / "x",
        spec,
        lambda m, s: {
            "episode_return": np.ones(2),
            "hyper_note": np.array([hostile if s else "plain"] * 2),
        },
        steps=[TASK, 2 * TASK],
        methods=["cpr"],
        seeds=(0, 1),
    )
    chart = figures.make("flagship", [path])
    assert any(hostile in str(row["method"]) for row in rows_of(chart))
    for form in ("svg", "html"):
        figures.save(chart, tmp_path / f"x.{form}")
        assert "<script>alert" not in (tmp_path / f"x.{form}").read_text()
    assert "alert(1)" in (tmp_path / "x.html").read_text()


def test_other_files_are_refused(tmp_path):
    with pytest.raises(StudyError, match=r"ends with .svg, .pdf, .png, .html; got .*x.gif"):
        figures.save(figures.make("util_comp"), tmp_path / "x.gif")


def test_every_colour_of_a_method_is_its_own():
    assert len({*style.COLOURS.values(), *style.OTHERS}) == len(style.COLOURS) + len(style.OTHERS)
