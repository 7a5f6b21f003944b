"""Folders of studies as tables and figures read them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from continual_learning.paper import artifacts, figures, folders, plan, runs, tables
from continual_learning.schema.errors import StudyError
from continual_learning.studies import registry
from tests.analysis import study_folders
from tests.studies.edited import edit


def test_a_folder_of_another_experiment(tmp_path):
    digits = study_folders.digits(tmp_path / "digits", tasks=2, seeds=2)
    with pytest.raises(StudyError, match="digits is a study of permuted_mnist; ant_iqr needs slip"):
        tables.make("ant_iqr", [digits])
    ant = study_folders.robots(tmp_path / "ant", seeds=2, per_task=1, tasks=2)
    with pytest.raises(StudyError, match="param_norm needs a study of slippery_humanoid: name its"):
        figures.make("param_norm", [ant])


def test_a_study_of_another_kind_by_the_same_name(tmp_path):
    spec = registry.get("random_labels").override(name="slippery_ant", tasks=2)
    path = study_folders.write(
        tmp_path / "x", spec, lambda m, s: {"train_accuracy": np.ones(1)}, steps=[336]
    )
    with pytest.raises(StudyError, match="is a study of slippery_ant; ant_iqr needs"):
        tables.make("ant_iqr", [path])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('schema = 1\n[study]\nexperiment = "toy"', "does not name its experiment"),
        ("schema = 1\n[study.experiment]\nkind = 'x'", "Unknown kind 'x'"),
        ("schema = 1\n[study.experiment]\nkind = 'control'\nname = '<b>'", "`title` is missing"),
    ],
)
def test_a_folder_that_is_no_study_of_ours(tmp_path, content, message):
    (tmp_path / "study.toml").write_text(content)
    (tmp_path / "environment.json").write_text("{}")
    with pytest.raises(StudyError, match=message):
        tables.make("ant_iqr", [tmp_path])


def test_a_folder_whose_seeds_are_no_numbers(tmp_path):
    path = study_folders.robots(tmp_path / "x", seeds=1, per_task=1, tasks=2)
    edit(path / "study.toml", "    0,\n", '    "0",\n', 1)
    with pytest.raises(StudyError, match=r"x: its study.toml does not list the seeds"):
        tables.make("ant_iqr", [path])


def test_values_of_an_ablation(tmp_path):
    """From folders, in order of the value; a lane's value counts more than its folder's."""
    small = {"seeds": 2, "per_task": 1, "tasks": 2, "methods": ["cpr"]}
    high = study_folders.robots(tmp_path / "high", **small, **{"cpr.max_reset": 0.2})
    low = study_folders.robots(tmp_path / "low", **small, **{"cpr.max_reset": 0.001})
    spec = registry.get("slippery_ant").override(tasks=2)
    lanes = study_folders.write(
        tmp_path / "lanes",
        spec,
        lambda m, s: {
            "episode_return": np.full(2, s),
            "hyper_max_reset": np.full(2, [0.05, 0.03][s % 2], np.float32),
        },
        steps=[spec.steps_per_task, spec.steps],
        methods=["cpr"],
        seeds=range(4),
    )
    found = runs.by_value(artifacts.get("rr"), [high, lanes, low])
    assert list(found) == [0.001, 0.03, 0.05, 0.2]
    assert found[0.03].curve("episode_return").seeds.tolist() == [1, 3]
    assert found[0.2].curve("episode_return").seeds.tolist() == [0, 1]


def test_folders_of_an_ablation_must_be_alike(tmp_path):
    small = {"seeds": 2, "per_task": 1, "methods": ["cpr"]}
    a = study_folders.robots(tmp_path / "a", **small, tasks=2)
    b = study_folders.robots(
        tmp_path / "b", **small, tasks=3, physics="mjx", **{"cpr.max_reset": 0.1}
    )
    with pytest.raises(StudyError, match=r"differ in more than cpr.max_reset: .*tasks \(2 and 3\)"):
        runs.by_value(artifacts.get("rr"), [a, b])
    adam = study_folders.robots(tmp_path / "adam", **small | {"methods": ["adam"]}, tasks=2)
    with pytest.raises(StudyError, match="adam does not run cpr, which rr shows"):
        runs.by_value(artifacts.get("rr"), [adam])


def test_shapes_come_in_the_order_of_the_paper(tmp_path):
    small = {"seeds": 2, "per_task": 1, "methods": ["cpr"], "tasks": 2}
    folders = [
        study_folders.robots(tmp_path / shape, **small, **{"cpr.shape": shape})
        for shape in ("sigmoid", "exp", "linear")
    ]
    found = runs.by_value(artifacts.get("transform_perf"), folders)
    assert list(found) == ["linear", "exp", "sigmoid"]


def test_lanes_of_an_ablation_are_its_values(tmp_path):
    """In one folder of the ablation, and beside a folder of the experiment itself."""
    small = {"seeds": 2, "per_task": 1, "tasks": 2, "methods": ["cpr"]}
    rho = study_folders.robots(tmp_path / "rho", "slippery_ant_rho", **small)
    alone = study_folders.robots(tmp_path / "alone", **small, **{"cpr.max_reset": 0.2})
    found = runs.by_value(artifacts.get("rr"), [rho, alone])
    assert list(found) == [0.001, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.1, 0.2]
    assert {each.curve("episode_return").values.shape[0] for each in found.values()} == {2}
    shape = study_folders.robots(tmp_path / "shape", "slippery_ant_shape", **small)
    assert list(runs.by_value(artifacts.get("transform_perf"), [shape])) == [
        "linear",
        "exp",
        "softplus",
        "sigmoid",
    ]
    folder = folders.Folder.read(rho)
    assert folder.seeds == (0, 1) and folder.unusual() == {}
    assert plan.finished(folder)
    with pytest.raises(StudyError, match="shape is a study of slippery_ant_shape; rr needs slippe"):
        runs.by_value(artifacts.get("rr"), [shape])


def test_what_is_unusual_about_a_folder(tmp_path):
    """Options of methods too, those that say what is usual anyway left out; never the budget."""
    folder = folders.Folder.read(
        study_folders.robots(
            tmp_path / "x",
            seeds=2,
            per_task=1,
            tasks=2,
            physics="mjx",
            **{"cpr.sharpness": 16.0, "cpr.max_reset": 0.1},
        )
    )
    assert folder.unusual() == {"physics": ("mjx", "unrolled"), "cpr.max_reset": (0.1, 0.015)}


def test_studies_of_single_tasks(tmp_path):
    """In the order of the paper; a task may be named with its version."""
    small = {"experiment": "mt1", "seeds": 2, "per_task": 2}
    push = study_folders.arms(tmp_path / "push", **small, sequence=("push-v3",))
    others = [
        study_folders.arms(tmp_path / name, **small, sequence=(name,))
        for name in ("plate-slide", "reach")
    ]
    grid = artifacts.get("metaworld_grid_2x5")
    found = runs.by_task(grid, [*others, push])
    assert list(found) == ["reach", "push", "plate-slide"]
    assert [str(study) for study in grid.studies[:2]] == [
        "mt1 (sequence=reach)",
        "mt1 (sequence=push)",
    ]
    assert [study.folder for study in grid.studies[1:3]] == [
        "mt1_sequence_push",
        "mt1_sequence_pick-place",
    ]
    folder = folders.Folder.read(push)
    assert [folders.holds(folder, study) for study in grid.studies[:3]] == [False, True, False]
    whole = study_folders.arms(
        tmp_path / "whole", "mt1", seeds=10, per_task=2, sequence=("push-v3",)
    )
    assert plan.held(grid.studies[1], [folders.Folder.read(whole)]) == [
        f"{whole} (paper, finished)"
    ]
    two = study_folders.arms(tmp_path / "two", **small, sequence=("reach", "push"), tasks=2)
    with pytest.raises(
        StudyError, match="two is a study of 2 tasks, reach, push; metaworld_grid_2x5"
    ):
        runs.by_task(grid, [two])


def test_names_of_tasks():
    assert registry.get("mt1").override(sequence=("push-v3",)).task_names == ["push"]
    games = ["space_invaders", "asterix", "seaquest"]
    assert registry.get("minatar_cycle").task_names == games * 5
    robots = registry.get("gymnasium").override(sequence=("Hopper-v3",), tasks=2)
    assert robots.task_names == ["Hopper-v3"] * 2


@pytest.mark.parametrize(
    ("name", "changed", "width"),
    [
        ("continual_minatar", {}, 60_000),  # 5 of 125 rows
        ("continual_minatar", {"vector_steps_per_task": 5000}, 12_000),  # 1 of 5
        ("continual_metaworld", {}, 100_000),  # 10 of 100
        ("slippery_ant", {"tasks": 4}, 6 * 96 * 2048),  # 6 of 102
        ("slippery_ant", {}, 2_000_000),  # the paper's
        ("permuted_mnist", {}, 7500),
        ("permuted_mnist", {"tasks": 50}, None),
    ],
)
def test_bins(name, changed, width):
    spec = registry.get(name).override(**changed)
    found = runs.Runs((folders.Folder(Path("x"), spec, (), (), ()),), pd.DataFrame())
    assert found.width == width
    if width not in (None, 2_000_000):
        assert spec.steps_per_task % width == 0


def test_every_task_of_games_weighs_the_same(tmp_path):
    """Its bins divide a task: the average is that of the rows, the end is of the last game."""
    spec = registry.get("continual_minatar")
    steps = np.arange(1, 376) * 12_000
    returns = np.repeat([100.0, 40, 10], 125)
    path = study_folders.write(
        tmp_path / "games", spec, lambda m, s: {"latest_return": returns}, steps=steps
    )
    table = tables.make("continual_minatar", [path])
    [row] = [row for row in table.rows if row[:2] == ("CPR", "latest_return, as published")]
    assert [cell.value for cell in row[2:]] == pytest.approx([50, 10])
    assert "Bins of 60,000 environment steps." in table.notes[0]
