"""Figures: that all can be made, of small studies of all that there is, and written."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from continual_learning.analysis import style
from continual_learning.paper import artifacts, figures
from continual_learning.paper.figures import theme
from continual_learning.schema.errors import StudyError
from continual_learning.studies import registry
from tests.analysis import study_folders
from tests.paper.charts import notes_of, rows_of, values_of

EVERY = [each.id for each in artifacts.ARTIFACTS.values() if each.kind == "figure"]

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
            for study in artifacts.get(id).studies
        }
    for id in ("mnist_sharpness", "mnist_shapes"):
        [study] = artifacts.get(id).studies
        spec = study.spec()
        found[study.folder] = [
            study_folders.digits(root / study.folder, spec, methods=study.methods, seeds=3, tasks=3)
        ]
    return found


def folders_of(id: str, studies: dict) -> list[Path]:
    artifact = artifacts.get(id)
    if artifact.id in studies:
        return studies[artifact.id]
    if artifact.varied == "sequence":
        return studies["sequence"]
    return [path for study in artifact.studies for path in studies[study.folder]]


# All of them -------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", EVERY)
def test_every_figure(id, studies):
    spec = figures.make(id, folders_of(id, studies)).to_dict()  # checks it against the schema
    assert spec["config"]["font"].startswith("Helvetica")
    assert spec["config"]["background"] == "white"
    text = json.dumps(spec)
    assert "NaN" not in text
    widths = [w for w in values_of(spec, "width") if isinstance(w, int)]
    assert 0 < max(widths) <= theme.WIDTH
    assert spec["title"]["text"]  # what the numbers are of
    used = set(re.findall(r'"(#[0-9A-Fa-f]{6})"', text))
    others = {x.color for m, x in style.looks().items() if m not in study_folders.METHODS}
    assert not used & others


@pytest.mark.parametrize("id", ["ant_humanoid_main", "dormant_linearized", "perm_mnist"])
def test_one_color_per_method(id, studies):
    chart = figures.make(id, folders_of(id, studies)).to_dict()
    scales = [s for s in values_of(chart, "scale") if s and "range" in s and "Adam" in s["domain"]]
    assert scales
    for scale in scales:
        colors = dict(zip(scale["domain"], scale["range"], strict=True))
        assert colors == {style.name(m): style.colors([m])[m] for m in study_folders.METHODS}


# Numbers by hand ---------------------------------------------------------------------------------


def test_bands_are_left_out_where_the_paper_leaves_them_out(studies):
    chart = figures.make("ant_humanoid_main", folders_of("ant_humanoid_main", studies))
    assert "area" not in {m["type"] for m in values_of(chart.to_dict(), "mark")}
    assert "Bands" not in notes_of(chart)


def test_utilities_by_hand(studies):
    chart = figures.make("util_dist", studies["util_dist"])
    share = {(row["method"], row["utility"]): row["share"] for row in rows_of(chart)}
    assert (share["CPR", 1.0], share["CPR", 0.0]) == (1, 0)
    assert (share["Adam", 1.0], share["Adam", 0.0]) == (0.5, 0.5)
    assert share["Adam", 4.0] == share["Adam", 3.9] == 0
    assert "CPR 2 seeds and 500 updates, Adam 2 seeds and 500 updates" in notes_of(chart)


def test_utilities_need_checkpoints(studies):
    with pytest.raises(StudyError, match="util_dist needs the histograms in a study's check"):
        figures.make("util_dist", studies["slippery_ant"])


def test_points_of_an_ablation(studies):
    chart = figures.make("sharpness_ablation", studies["slippery_ant_kappa"])
    rows = [row for row in rows_of(chart) if "statistic" in row]
    order = list(dict.fromkeys(row["value"] for row in rows))
    assert order == ["0", "0.5", "1", "2", "4", "8", "12", "16", "20", "∞"]
    assert all(row["low"] <= row["return_"] <= row["high"] for row in rows)


def test_rollouts_are_named_by_their_steps(studies):
    rows = rows_of(figures.make("big_dormant", folders_of("big_dormant", studies)))
    assert {row["value"] for row in rows if "value" in row} == {"196,608", "589,824", "1,179,648"}


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


def test_every_color_of_a_method_is_its_own():
    own = [look.color for look in style.looks().values() if look.color]
    assert len({*own, *style.OTHERS}) == len(own) + len(style.OTHERS)
    assert len(set(style.colors(style.looks()).values())) == len(style.looks())
