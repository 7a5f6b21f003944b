"""The commands table, figure and reproduce, of studies that are divided."""

from pathlib import Path

import numpy as np
import pytest

from continual_learning import cli
from continual_learning.jobs import manage, states, tree
from continual_learning.jobs.job import divide
from continual_learning.paper import artifacts, folders
from continual_learning.studies import registry
from continual_learning.studies.store.files import StoreError
from tests.analysis import study_folders

REPRODUCE = ["reproduce", "ant_iqr", "--scale", "smoke", "--out", "x", "--quiet"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def jobs(here):
    """A study that `reproduce` needs, in jobs, a seed in each; none has begun."""
    spec = registry.get("slippery_ant").at_scale("smoke")
    parts = divide(spec, study_folders.METHODS, range(spec.seeds), 1)
    return tree.create("x/slippery_ant", parts, {"name": "local"})


@pytest.fixture
def resumed(monkeypatch):
    """Takes the place of going on with jobs: (folder, time limit) of each time."""
    calls, code = [], [0]

    def resume(path, *, options):
        calls.append((path, options.time_limit))
        return code[0]

    monkeypatch.setattr(manage, "resume", resume)
    return calls, code


def test_jobs_that_are_finished_are_read(jobs, here, resumed):
    """As one study would be."""
    for name in jobs.jobs:
        _write(jobs, name)
    assert cli.main(REPRODUCE) == 0
    assert not resumed[0]
    [study] = artifacts.get("ant_iqr").studies
    _write_study(here / "one/slippery_ant", study.spec("smoke"), study.methods, range(2))
    assert cli.main([*REPRODUCE[:-3], "--out", "one"]) == 0
    for form in ("md", "csv"):
        assert (here / f"x/ant_iqr.{form}").read_text() == (
            here / f"one/ant_iqr.{form}"
        ).read_text()


def test_jobs_that_are_not_finished_go_on(jobs, here, resumed, monkeypatch, capsys):
    calls, code = resumed
    for name in list(jobs.jobs)[1:]:
        _write(jobs, name)
    code[0] = 75
    assert cli.main([*REPRODUCE, "--time-limit", "90"]) == 75
    assert calls[0][0] == Path("x/slippery_ant") and 80 < calls[0][1] <= 90
    assert not capsys.readouterr().out
    code[0] = 0  # a scheduler has them
    assert cli.main(REPRODUCE) == 75
    assert "x/slippery_ant: its jobs are under way." in capsys.readouterr().out
    assert not list(here.glob("x/ant_iqr.*"))
    # One that collapsed is finished, and has fewer steps.
    monkeypatch.setattr(states, "states", lambda _: {"all": states.State("finished", 1, 1)})
    assert cli.main(REPRODUCE) == 0
    assert (here / "x/ant_iqr.md").exists()


def test_jobs_of_another_study_are_refused(jobs, resumed, capsys):
    assert cli.main([*REPRODUCE, "--scale", "short"]) == 2
    said = capsys.readouterr().err
    assert "x/slippery_ant holds another study" in said
    assert "experiment.tasks: 2 in the folder, 5 asked" in said
    assert "seeds: [0, 1] in the folder, [0, 1, 2" in said and "  methods:" not in said
    assert not resumed[0]


def test_the_plan_with_a_study_in_parts(here, capsys):
    """By method, in folders beside one another; by method and seeds, as jobs."""
    methods = study_folders.METHODS
    for method in methods:
        study_folders.robots(
            Path(f"parts/{method}"), seeds=3, per_task=2, tasks=2, methods=[method]
        )
    study_folders.robots(Path("parts/other"), seeds=3, per_task=2, tasks=3, methods=["cpr"])
    small = registry.get("slippery_ant").override(tasks=2)
    jobs = tree.create("jobs", divide(small, methods, [0, 1, 2, 3], 2), {"name": "local"})

    def listed():
        assert cli.main(["reproduce", "--list", "parts", "jobs"]) == 0
        said = capsys.readouterr().out
        return {line.strip() for line in said.splitlines() if line.startswith("  holds it: ")}

    assert "holds it: parts (a budget of its own, finished)" in listed()
    assert "holds it: jobs (a budget of its own, unfinished)" in listed()  # none has begun
    for name in list(jobs.jobs)[:-1]:
        _write(jobs, name)
    assert "holds it: jobs (a budget of its own, unfinished)" in listed()
    _write(jobs, list(jobs.jobs)[-1])
    found = listed()
    assert "holds it: jobs (a budget of its own, finished)" in found
    assert not any("parts/other" in line for line in found)  # it has not all methods
    (here / "empty").mkdir()
    with pytest.raises(StoreError, match="is not the folder of a study"):
        folders.whole("empty")
    assert cli.main(["table", "ant_iqr", "jobs"]) == 0  # as it is


def _write(jobs, name):
    study = jobs.job(name).study
    _write_study(jobs.folder(name), study.experiment, study.methods, study.seeds)


def _write_study(path, spec, methods, seeds):
    study_folders.write(
        path,
        spec,
        lambda method, seed: {"episode_return": np.arange(4.0) + seed},
        steps=np.arange(1, 5) * spec.steps // 4,
        methods=methods,
        seeds=seeds,
    )
