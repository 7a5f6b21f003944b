"""Tables and figures of MetaWorld, by hand, and what they say beside the numbers."""

import numpy as np
import pytest

from continual_learning.envs.catalog.metaworld import MT10
from continual_learning.networks.distributions import LOG_STD
from continual_learning.paper import figures, numbers, tables
from continual_learning.paper.figures import theme
from continual_learning.paper.tables.writers import csv_text, shown
from continual_learning.paper.values import value
from continual_learning.schema.errors import StudyError
from continual_learning.studies import registry
from tests.analysis import study_folders


def cell(table, *names):
    """The cell of the row with these first cells, in the column of the last name."""
    *first, column = names
    [row] = [row for row in table.rows if list(row[: len(first)]) == first]
    return row[[each.key for each in table.columns].index(column)]


def sequence(path, tasks=("reach", "push", "pick-place"), eval_every=10_000, until=6):
    """Three tasks of two rows; four seeds, of which CPR's are 0.1 apart and Muon's alike."""
    spec = registry.get("continual_metaworld").override(
        sequence=tasks, tasks=len(tasks), eval_every=eval_every
    )

    def columns(method, seed):
        more = 0.1 * seed if method == "cpr" else 0.0
        found = {
            "success": np.array([0.0, 0.5, 0.1, 0.4, 0.2, 0.3]) + more,
            "latest_return": np.ones(6),
        }
        nan = np.nan
        if eval_every:
            found |= {
                "eval_reach_success": np.array([nan, 0.6, nan, 0.3, nan, 0.0]) + more,
                "eval_push_success": np.array([nan, nan, nan, 0.4, nan, 0.2]) + more,
                "eval_pick_place_success": np.array([nan, nan, nan, nan, nan, 0.4]) + more,
                "eval_seen_success": np.array([nan, 0.6, nan, 0.35, nan, 0.2]) + more,
            }
        return {name: values[:until] for name, values in found.items()}

    steps = np.arange(1, 7) * spec.steps_per_task // 2
    return study_folders.write(
        path, spec, columns, steps=steps, methods=["cpr", "muon"], seeds=range(4)
    )


# Settings ----------------------------------------------------------------------------------------


def test_settings_of_metaworld():
    """What no field says is as the program has it; MT1 differs where the paper says so."""
    rows = {row[0]: row[-2] for row in tables.make("cmw_sac_params").rows}
    assert rows["log σ bounds"] == "[{:.0f}, {:.0f}]".format(*LOG_STD).replace("-", "−")
    assert (rows["Target entropy"], rows["Activation"]) == ("−d_action", "relu")
    assert (rows["Buffer size"], rows["Hidden layers"], rows["Hidden size"]) == (500_000, 3, 256)
    settings = [row["ours"][0] for row in numbers.settings("cmw_sac_params") if "ours" in row]
    both = registry.get("continual_metaworld"), registry.get("mt1")
    found = {name: tuple(value(spec, name) for spec in both) for name in settings}
    assert {name: v for name, v in found.items() if v[0] != v[1]} == {
        "replay_ratio": (8, 4),
        "capacity": (500_000, 1_000_000),
    }


# Continual MetaWorld -----------------------------------------------------------------------------


def test_both_readings_of_the_papers_numbers(tmp_path):
    """Of 0, 0.1, 0.2 and 0.3 more, 0.15 is the mean of what the IQM keeps."""
    table = tables.make("continual_metaworld", [sequence(tmp_path / "x")])
    assert shown(cell(table, "Muon", "paper", "average")) == "0.179 ± 0.008"
    assert [row[1] for row in table.rows if row[0] == "CPR"] == [
        "paper",
        "success, as published",
        "success, IQM of seeds",
        "eval_seen_success, as published",
        "eval_seen_success, IQM of seeds",
    ]
    for source in ("as published", "IQM of seeds"):
        assert cell(table, "Muon", f"success, {source}", "average").value == pytest.approx(0.25)
        assert cell(table, "Muon", f"success, {source}", "final").value == pytest.approx(0.3)
        assert cell(table, "CPR", f"success, {source}", "final").value == pytest.approx(0.45)
        # Evaluations come at the end of tasks: 0.6, 0.35 and 0.2.
        assert cell(
            table, "Muon", f"eval_seen_success, {source}", "average"
        ).value == pytest.approx(1.15 / 3)
        assert cell(table, "CPR", f"eval_seen_success, {source}", "final").value == pytest.approx(
            0.35
        )
    assert cell(table, "Adam", "eval_seen_success, as published", "final") == "—"
    assert "4 seeds of 3M environment steps. The paper: 5 seeds of 10M." in table.notes[0]
    assert "share of training episodes that ended with the task solved" in table.notes[1]
    assert "eval_seen_success" in table.notes[2] and "more plausible" in table.notes[2]
    without = tables.make("continual_metaworld", [sequence(tmp_path / "y", eval_every=0)])
    assert "eval_seen" not in " ".join(without.notes)
    assert {row[1] for row in without.rows} == {
        "paper",
        "success, as published",
        "success, IQM of seeds",
    }


def test_forgetting(tmp_path):
    """Reach falls from 0.6 to 0, push from 0.4 to 0.2; CPR has 0.15 more of everything."""
    table = tables.make("cmw_forgetting", [sequence(tmp_path / "x")])
    assert [row[0] for row in table.rows] == ["CPR", "Muon"]
    assert [
        cell(table, "Muon", c).value for c in ("learned", "kept", "forgetting")
    ] == pytest.approx([0.5, 0.1, 0.4])
    assert cell(table, "Muon", "retention").value == pytest.approx(0.2)
    assert [
        cell(table, "CPR", c).value for c in ("learned", "kept", "forgetting")
    ] == pytest.approx([0.65, 0.25, 0.4])
    # 0.2/1.0, 0.4/1.2, 0.6/1.4, 0.8/1.6: without the lowest and the highest.
    assert cell(table, "CPR", "retention").value == pytest.approx((0.4 / 1.2 + 0.6 / 1.4) / 2)
    assert cell(table, "Muon", "forgetting")[1:3] == pytest.approx((0.4, 0.4))
    assert "Not in this study: CBP" in table.notes[0] and "Tasks of" not in table.notes[0]


def test_forgetting_while_a_study_runs(tmp_path):
    """Of the tasks that all seeds have ended."""
    table = tables.make("cmw_forgetting", [sequence(tmp_path / "x", until=5)])
    assert cell(table, "Muon", "forgetting").value == pytest.approx(0.3)  # reach, after push
    assert "Tasks of 3 that all seeds have ended: CPR 2, Muon 2." in table.notes[0]
    early = tables.make("cmw_forgetting", [sequence(tmp_path / "y", until=3)])
    assert cell(early, "Muon", "forgetting") == "—"
    assert "Tasks of 3 that all seeds have ended: CPR 1, Muon 1." in early.notes[0]


def test_forgetting_needs_evaluations(tmp_path):
    path = sequence(tmp_path / "x", eval_every=0)
    with pytest.raises(StudyError, match="x has no evaluations, which cmw_forgetting needs"):
        tables.make("cmw_forgetting", [path])


def test_forgetting_of_games(tmp_path):
    spec = registry.get("continual_minatar").at_scale("short")
    nan = np.nan

    def columns(method, seed):
        return {
            "latest_return": np.ones(3),
            "eval_space_invaders": np.array([40.0, 10.0, 10.0]),
            "eval_asterix": np.array([nan, 8.0, 2.0]),
            "eval_seaquest": np.array([nan, nan, 3.0]),
            "eval_seen": np.array([40.0, 9.0, 5.0]),
        }

    steps = np.arange(1, 4) * spec.steps_per_task
    path = study_folders.write(tmp_path / "x", spec, columns, steps=steps, methods=["adam"])
    table = tables.make("minatar_forgetting", [path])
    assert [shown(each) for each in table.rows[0]] == [
        "Adam",
        "24.0 [24.0, 24.0]",
        "6.0 [6.0, 6.0]",
        "18.0 [18.0, 18.0]",
        "0.25 [0.25, 0.25]",
    ]


# MT1 ---------------------------------------------------------------------------------------------


def single(path, task, *, methods=("adam", "redo"), seeds=range(4), rows=10, **success):
    """A study of one task: half of a method's success, at last all; 0.1 apart by seed."""
    spec = registry.get("mt1").override(sequence=(task,))

    def columns(method, seed):
        levels = (
            np.repeat([0.5, 1.0], [rows - rows // 10, rows // 10]) * success.get(method, 0.0)
            + 0.1 * seed
        )
        return {
            "success": levels,
            "latest_return": 1000 * levels,
            "eval_seen_success": levels + 0.05,
        }

    steps = np.arange(1, rows + 1) * spec.steps // rows
    return study_folders.write(path, spec, columns, steps=steps, methods=methods, seeds=seeds)


def test_success_on_single_tasks_by_hand(tmp_path):
    paths = [
        single(tmp_path / "push", "push", adam=0.4, redo=0.2),
        single(tmp_path / "reach", "reach-v3", adam=0.6, redo=0.6),
    ]
    table = tables.make("mt1_success", paths)
    assert [row[:2] for row in table.rows] == [
        (task, method) for task in ("reach", "push", "All tasks") for method in ("ReDo", "Adam")
    ]
    for task, redo, adam in (("reach", 0.6, 0.6), ("push", 0.2, 0.4), ("All tasks", 0.4, 0.5)):
        assert cell(table, task, "ReDo", "success").value == pytest.approx(redo + 0.15)
        assert cell(table, task, "Adam", "evaluated").value == pytest.approx(adam + 0.2)
        assert cell(table, task, "Adam", "return").value == pytest.approx(1000 * (adam + 0.15))
        found = cell(table, task, "ReDo", "minus_adam")
        assert found.value == pytest.approx(redo - adam, abs=1e-12)
        assert found.low < found.value < found.high and found.high - found.low < 0.6
        assert cell(table, task, "Adam", "minus_adam") == "—"
    # Two tasks are surer than one.
    one, all_ = (cell(table, task, "ReDo", "minus_adam") for task in ("push", "All tasks"))
    assert all_.high - all_.low < one.high - one.low
    assert table.notes[0].startswith(
        "Each task: 4 seeds of 2M environment steps. The paper: 10 seeds of 2M. Smaller"
    )
    assert table.notes[1] == f"Not run: {', '.join(MT10[2:])}."
    assert (
        csv_text(table).splitlines()[6].startswith("task,method,success,success_low,success_high")
    )


def test_single_tasks_that_are_not_whole(tmp_path):
    """Tasks with other seeds are not put together; nor is there a difference to what is not run."""
    paths = [
        single(tmp_path / "reach", "reach", methods=["redo"], redo=0.5),
        single(tmp_path / "push", "push", methods=["redo"], seeds=range(2), redo=0.5),
    ]
    table = tables.make("mt1_success", paths)
    assert {row[0] for row in table.rows} == {"reach", "push"}
    assert cell(table, "reach", "ReDo", "minus_adam") == "—"
    assert table.notes[0].startswith("reach: 4 seeds") and table.notes[1].startswith(
        "push: 2 seeds"
    )
    alone = tables.make("mt1_success", paths[:1])
    assert {row[0] for row in alone.rows} == {"reach"}


def test_the_grid_of_single_tasks(tmp_path):
    paths = [study_folders.arms(tmp_path / task, "mt1", seeds=3, sequence=(task,)) for task in MT10]
    chart = figures.make("metaworld_grid_2x5", paths)
    spec = chart.to_dict()
    panels = spec["concat"]
    assert spec["columns"] == 2
    titles = [panel["layer"][-1]["encoding"]["text"]["value"] for panel in panels]
    assert titles == list(MT10)
    notes = " ".join(spec["title"]["text"])
    assert "Each task: 3 seeds of 2M environment steps. The paper: 10 seeds of 2M." in notes
    assert "Bands" in notes and "latest_return: the mean return" in notes and "Not run" not in notes
    figures.save(chart, tmp_path / "x.svg")
    text = (tmp_path / "x.svg").read_text()
    assert float(text.split('width="')[1].split('"')[0]) <= theme.WIDTH * 1.05
    assert text.count(">Shrink &amp; Perturb</text>") == 1  # one legend


def test_a_panel_by_hand(tmp_path):
    """Of 100 rows two a bin; the IQM of 200, 300, 400 and 500 is 350."""
    path = single(tmp_path / "push", "push", methods=["adam"], rows=100, adam=0.4)
    chart = figures.make("metaworld_grid_2x5", [path])
    rows = [r for rows in chart.to_dict()["datasets"].values() for r in rows if "iqm" in r]
    assert [row["step"] for row in rows] == pytest.approx(np.arange(1, 51) * 0.04)
    assert (rows[0]["iqm"], rows[-1]["iqm"]) == (350, 550)
    assert "Not run: reach, pick-place" in " ".join(chart.to_dict()["title"]["text"])
