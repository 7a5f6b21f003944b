"""Tables: their numbers by hand, their text as committed, and what they say beside the numbers.

`python -m tests.paper.test_tables` writes the files of `golden/` anew.
"""

import io
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest

from continual_learning.analysis.curves import CurvesError
from continual_learning.paper import tables
from continual_learning.paper.tables import Measured, Table
from continual_learning.paper.tables.writers import csv_text, shown
from continual_learning.studies import registry
from tests.analysis import study_folders

GOLDEN = Path(__file__).parent / "golden"


def known(path: Path) -> Path:
    """Four seeds, two tasks of two rows; the statistics are easy to do by hand.

    CPR is 100, 200, 300 and 400 at first and 10 more at every row; all seeds of Adam lose 50 at
    every row; ReDo is CPR, but only its first seed is finished; CBP has not begun.
    """
    spec = registry.get("slippery_ant").override(
        tasks=2, iterations_per_task=2, iterations_per_chunk=1
    )

    def columns(method: str, seed: int) -> dict:
        row = np.arange(4.0)
        returns = {
            "cpr": 100 * (seed + 1) + 10 * row,
            "adam": -50 * row,
            "redo": (100 * (seed + 1) + 10 * row)[: 4 if seed == 0 else 2],
            "cbp": row[:0],
        }
        return {"episode_return": returns[method]}

    steps = np.arange(1, 5) * spec.steps_per_task // 2
    methods = ["cpr", "adam", "redo", "cbp"]
    return study_folders.write(path, spec, columns, steps=steps, methods=methods, seeds=range(4))


def golden_tables(folder: Path) -> dict[str, Table]:
    return {
        "ant_iqr": tables.make("ant_iqr", [folder]),
        "hyper_sweep": tables.make("hyper_sweep"),
        "mt1_reset_params": tables.make("mt1_reset_params"),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return known(tmp_path_factory.mktemp("studies") / "known")


def cell(table: Table, method: str, source: str, column: str):
    [row] = [row for row in table.rows if row[:2] == (method, source)]
    return row[[each.key for each in table.columns].index(column)]


# Numbers by hand ---------------------------------------------------------------------------------


def test_numbers_by_hand(folder):
    table = tables.make("ant_iqr", [folder])
    # Of 100, 200, 300, 400 the percentiles are 175 and 325: 200 and 300 remain. The rows add 0, 10,
    # 20 and 30, on average 15.
    for statistic, value in (("average", 265), ("final", 280), ("peak", 280)):
        found = cell(table, "CPR", "episode_return, as published", statistic)
        assert found[:3] == pytest.approx((value, value - 75, value + 75))
        # The trimmed mean leaves out one seed at each end, too.
        ours = cell(table, "CPR", "episode_return, IQM of seeds", statistic)
        assert ours.value == pytest.approx(value)
        assert value - 150 <= ours.low < value < ours.high <= value + 150
    for statistic, value in (("average", -75), ("final", -150), ("peak", 0)):
        for source in ("episode_return, as published", "episode_return, IQM of seeds"):
            assert cell(table, "Adam", source, statistic)[:3] == pytest.approx((value,) * 3)
    # Two rows that all four seeds have.
    for statistic, value in (("average", 255), ("final", 260), ("peak", 260)):
        assert cell(
            table, "ReDo", "episode_return, as published", statistic
        ).value == pytest.approx(value)
    assert cell(table, "CBP", "episode_return, as published", "average") == "—"


def test_the_papers_numbers_are_beside(folder):
    table = tables.make("ant_iqr", [folder])
    assert cell(table, "CPR", "paper", "average")[:3] == (6051, 6051 - 320, 6051 + 290)
    assert shown(cell(table, "CPR", "paper", "average")) == "6051 +290 −320"
    assert shown(cell(table, "Shrink & Perturb", "paper", "final")) == "−341 +7820 −1656"
    names = list(dict.fromkeys(row[0] for row in table.rows))
    assert names == ["CPR", "CBP", "ReDo", "ReGraMa", "Shrink & Perturb", "Adam"]
    assert cell(table, "CPR", "paper", "final").best
    assert cell(table, "CPR", "episode_return, IQM of seeds", "final").best
    assert not cell(table, "Adam", "paper", "final").best


def test_the_step_of_the_peak(tmp_path):
    path = study_folders.robots(tmp_path / "x", "slippery_humanoid", seeds=4, per_task=2, tasks=3)
    table = tables.make("hum_iqr", [path])
    assert shown(cell(table, "CPR", "paper", "peak")) == "6264 +647 −1195 at 382M"
    assert re.search(
        r"at \d+(\.\d)?M$", shown(cell(table, "CPR", "episode_return, as published", "peak"))
    )


def test_shapes(tmp_path):
    small = {"seeds": 4, "per_task": 2, "tasks": 2, "methods": ["cpr"]}
    paths = [
        study_folders.robots(tmp_path / shape, **small, **{"cpr.shape": shape})
        for shape in ("exp", "sigmoid")
    ]
    table = tables.make("transform_perf", paths)
    assert [column.key for column in table.columns][2:] == ["peak", "average", "final"]
    assert shown(cell(table, "Exponential", "paper", "final")) == "7598.191"
    assert isinstance(cell(table, "Exponential", "episode_return, as published", "final"), Measured)
    assert cell(table, "Linear", "episode_return, as published", "final") == "—"
    assert table.notes[0].startswith("Exponential: 4 seeds of 40.1M environment steps.")


# Text --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", ["ant_iqr", "hyper_sweep", "mt1_reset_params"])
@pytest.mark.parametrize("form", tables.WRITERS)
def test_golden(folder, id, form):
    text = tables.WRITERS[form](golden_tables(folder)[id])
    assert text == (GOLDEN / f"{id}.{form}").read_text()


def test_csv_can_be_read_back(folder):
    import pandas as pd

    frame = pd.read_csv(io.StringIO(csv_text(tables.make("ant_iqr", [folder]))), comment="#")
    assert len(frame) == 18
    row = frame[(frame.method == "CPR") & (frame.source == "episode_return, as published")].iloc[0]
    numbers = row[["average", "average_low", "average_high"]]
    np.testing.assert_allclose(numbers.astype(float), [265, 190, 340])


# What is said beside the numbers -----------------------------------------------------------------


def test_what_is_not_whole_is_told(folder):
    note, of_returns, *_ = tables.make("ant_iqr", [folder]).notes
    assert "4 seeds of 786,432 environment steps. The paper: 15 seeds of 400M." in note
    assert "Smaller than the paper's: 786,432 of 400M steps, 4 of 15 seeds." in note
    assert "Unfinished, of 786,432 steps: ReDo (393,216 to 786,432)." in note
    assert "Not begun: CBP." in note
    assert "Not in this study: ReGraMa, Shrink & Perturb." in note
    assert "Points left out, since a seed has no value there: ReDo 2 of 4." in of_returns


def test_a_study_as_long_as_the_papers_says_nothing_of_it(tmp_path):
    path = study_folders.robots(tmp_path / "x", seeds=15, per_task=1)
    table = tables.make("ant_iqr", [path])
    assert table.notes[0] == (
        "This study: 15 seeds of 401M environment steps. The paper: 15 seeds of 400M. "
        "Bins of 2,000,000 environment steps."
    )


def test_both_returns_stand_beside_the_papers(tmp_path):
    """CPR's returns of ended episodes are 100, the last ones of every environment 300."""
    spec = registry.get("slippery_ant").override(tasks=2)
    path = study_folders.write(
        tmp_path / "x",
        spec,
        lambda method, seed: {
            "episode_return": np.full(2, 100.0),
            "latest_return": np.full(2, 300.0),
        },
        steps=[spec.steps_per_task, 2 * spec.steps_per_task],
        methods=["cpr"],
    )
    table = tables.make("ant_iqr", [path])
    for metric, value in (("episode_return", 100), ("latest_return", 300)):
        for source in ("as published", "IQM of seeds"):
            assert cell(table, "CPR", f"{metric}, {source}", "final").value == value
    notes = " ".join(table.notes)
    assert (
        "latest_return: the mean return of the last completed episode of every environment."
        in notes
    )
    assert "episode_return, as in the paper: the mean return of the episodes" in notes


def test_other_settings_are_told(tmp_path):
    path = study_folders.robots(
        tmp_path / "x", seeds=2, per_task=1, tasks=2, physics="mjx", **{"cpr.max_reset": 0.1}
    )
    note = tables.make("ant_iqr", [path]).notes[0]
    assert "physics = mjx (not unrolled), cpr.max_reset = 0.1 (not 0.015)." in note


def test_returns_that_were_not_measured(tmp_path):
    """A bin in which an episode ended in some seeds alone is left out, and said to be."""
    spec = registry.get("slippery_ant").override(tasks=2)

    def columns(method, seed):
        returns = np.full(4, 10.0)
        returns[1] = np.nan if seed == 0 else 0.0
        if method == "adam":
            returns[seed::2] = np.nan  # never in both
        return {"episode_return": returns}

    path = study_folders.write(
        tmp_path / "x",
        spec,
        columns,
        steps=np.arange(1, 5) * spec.steps // 4,
        methods=["cpr", "adam"],
        seeds=(0, 1),
    )
    table = tables.make("ant_iqr", [path])
    assert cell(table, "CPR", "episode_return, as published", "average").value == 10
    assert cell(table, "Adam", "episode_return, as published", "average") == "—"
    assert "no value there: Adam 4 of 4, CPR 1 of 4." in table.notes[1]


@pytest.mark.parametrize("evaluations", [True, False])
def test_games(tmp_path, evaluations):
    """Returns in ten bins a game; the paper's size is that of the experiment."""
    spec = registry.get("continual_minatar").at_scale("short")

    def columns(method, seed):
        returns = np.repeat([1.0, 2.0, 3.0], 10) + (method == "cpr") + seed
        evaluated = np.where(np.arange(1, 31) % 5 == 0, 10 * returns, np.nan)
        return {"latest_return": returns} | ({"eval_seen": evaluated} if evaluations else {})

    path = study_folders.write(
        tmp_path / "x",
        spec.override(eval_every=10_000 if evaluations else 0),
        columns,
        steps=np.arange(1, 31) * spec.steps // 30,
        methods=["cpr", "adam"],
        seeds=(0, 1, 2),
    )
    table = tables.make("continual_minatar", [path])
    sources = [row[1] for row in table.rows if row[0] == "CPR"]
    if evaluations:
        more = ["eval_seen, as published", "eval_seen, IQM of seeds"]
        assert sources == [
            "paper",
            "latest_return, as published",
            "latest_return, IQM of seeds",
            *more,
        ]
        for source, statistic, value in (
            ("eval_seen, as published", "average", 40),
            ("eval_seen, IQM of seeds", "final", 50),
        ):
            assert cell(table, "CPR", source, statistic).value == value
        assert cell(table, "ReDo", more[0], "final") == "—"
        assert table.notes[2].startswith("eval_seen: the return of deterministic episodes")
        assert "left out" not in " ".join(table.notes)
    else:
        assert sources == ["paper", "latest_return, as published", "latest_return, IQM of seeds"]
        assert "eval_seen" not in " ".join(table.notes)
    found = (
        cell(table, "CPR", "latest_return, IQM of seeds", "average"),
        cell(table, "Adam", "paper", "final"),
    )
    assert (found[0].value, found[1].value) == (4, 1.9)
    assert "3 seeds of 720,000 environment steps. The paper: 5 seeds of 4.5M." in table.notes[0]
    assert "Smaller than the paper's: 720,000 of 4.5M steps, 3 of 5 seeds." in table.notes[0]
    assert "of the last completed episode of every environment" in table.notes[1]


def test_what_the_papers_trainer_logs(tmp_path):
    spec = registry.get("continual_minatar").at_scale("short").override(published_return=True)
    path = study_folders.write(
        tmp_path / "x",
        spec,
        lambda *_: {"latest_return": np.full(30, 1.0), "published_return": np.full(30, 50.0)},
        steps=np.arange(1, 31) * spec.steps // 30,
        methods=["cpr"],
        seeds=(0, 1),
    )
    table = tables.make("continual_minatar", [path])
    assert cell(table, "CPR", "latest_return, as published", "average").value == 1
    assert cell(table, "CPR", "published_return, as published", "average").value == 50
    assert "evaluations restart the environments every 10,000 steps" in " ".join(table.notes)


def test_a_single_seed_has_no_interval(tmp_path):
    path = study_folders.robots(tmp_path / "x", seeds=1, per_task=1, tasks=2)
    found = cell(tables.make("ant_iqr", [path]), "CPR", "episode_return, IQM of seeds", "final")
    assert (found.low, found.high) == (None, None)


def test_seeds_from_several_folders(tmp_path):
    """Half of the seeds each; methods with different numbers of seeds are told."""
    spec = registry.get("slippery_ant").override(tasks=2)

    def part(name, methods, seeds):
        return study_folders.write(
            tmp_path / name,
            spec,
            lambda m, s: {"episode_return": np.full(2, 100.0 * s)},
            steps=[spec.steps_per_task, spec.steps],
            methods=methods,
            seeds=seeds,
        )

    a, b = part("a", ["cpr", "adam"], (1, 2)), part("b", ["cpr"], (3, 4))
    table = tables.make("ant_iqr", [a, b])
    assert cell(table, "CPR", "episode_return, as published", "final")[:3] == (250, 175, 325)
    assert cell(table, "Adam", "episode_return, as published", "final").value == 150
    assert "2 to 4 seeds of" in table.notes[0]
    with pytest.raises(CurvesError, match="both have cpr, with seeds"):
        tables.make("ant_iqr", [a, part("c", ["cpr"], (2, 3))])


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        for name, table in golden_tables(known(Path(temporary) / "known")).items():
            for form, write in tables.WRITERS.items():
                (GOLDEN / f"{name}.{form}").write_text(write(table))
