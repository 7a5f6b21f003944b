"""A method and an experiment of one file each, in everything that studies go through."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from continual_learning import cli, plugins
from continual_learning.analysis import load
from continual_learning.jobs import tree, worker
from continual_learning.jobs.job import divide
from continual_learning.studies import registry
from continual_learning.studies.options import RunOptions
from continual_learning.studies.store import manifest
from tests.analysis import study_folders

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
METHOD, EXPERIMENT = str(HERE / "my_method.py"), str(HERE / "my_experiment.py")
BOTH = ["--plugin", METHOD, f"--plugin={EXPERIMENT}"]
SMALL = ["--tasks", "2", "--examples-per-task", "64", "--quiet"]
RUN = ["run", "few_digits", *BOTH, "--methods", "adam,random_resets", *SMALL]
SET = ["--set", "random_resets.every=3", "--set", "random_resets.rate=0.5"]


def said(capsys, *words, code=0):
    """What a command says; its exit code is checked."""
    assert cli.main([str(word) for word in words]) == code
    return "".join(capsys.readouterr())


def test_a_study_by_files(tmp_path, another_process, capsys, monkeypatch):
    path = tmp_path / "study"
    said(capsys, *RUN, *SET, "--out", path, "--until-task", 1, code=75)
    study, _ = manifest.read(path)
    assert [each["file"] for each in study["plugins"]] == [METHOD, EXPERIMENT]
    assert study["experiment"]["methods"]["random_resets"]["options"] == {"rate": 0.5, "every": 3}

    another_process()
    assert "random_resets        1 of 2 chunks  to resume" in said(capsys, "status", path)
    assert plugins.loaded() == ()
    said(capsys, "resume", path, "--quiet")
    assert [each.file for each in plugins.loaded()] == [METHOD, EXPERIMENT]
    rows = load(path)
    assert rows[rows.method == "random_resets"].units_reset.max() > 0

    another_process()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "of_somebody_else"))
    page = tmp_path / "page.html"
    told = said(capsys, "report", path, "-o", page)
    assert told.count(f"Warning: the plug-in {METHOD} is not loaded") == 1
    assert "Random Resets" in page.read_text() and "#123456" in page.read_text()
    assert plugins.loaded() == ()
    assert "never named on this machine" in said(capsys, "resume", path, code=2)
    assert said(capsys, "report", path, "-o", page, *BOTH).count("Warning") == 0
    said(capsys, "resume", path, *BOTH)


def test_tables_and_figures(tmp_path, another_process, capsys):
    plugins.load(METHOD)
    experiment = registry.get("slippery_ant").with_methods(["random_resets"])
    shown = ("adam", "cpr", "random_resets")
    path = study_folders.robots(tmp_path / "ant", experiment, methods=shown, seeds=3)
    chart = tmp_path / "chart.html"
    for words in ([], ["--plugin", METHOD]):
        another_process()
        assert "Random Resets" in said(capsys, "table", "ant_iqr", path, *words)
        said(capsys, "figure", "flagship", path, "--out", chart, *words)
        assert "Random Resets" in chart.read_text() and "#123456" in chart.read_text()


@pytest.mark.slow
def test_a_sweep(tmp_path, another_process, capsys):
    path = tmp_path / "sweep"
    words = ["sweep", "few_digits", *BOTH, "--method", "random_resets", *SMALL, "--out", path]
    words += ["--grid", "rate=0.1,0.5", "every=3", "--seeds", "2"]
    told = said(capsys, *words)
    assert f"run {path / 'best.toml'} --plugin {METHOD} --plugin {EXPERIMENT} --out DIR" in told
    another_process()
    assert "finished" in said(capsys, "status", path)
    page = tmp_path / "page.html"
    said(capsys, "report", path, "-o", page)
    assert "Random Resets" in page.read_text() and plugins.loaded() == ()
    assert "rate" in said(capsys, "select", path)
    another_process()
    told = said(capsys, "run", path / "best.toml", "--out", tmp_path / "best", code=2)
    assert "Unknown reset method 'random_resets'" in told and "--plugin FILE.py" in told
    said(capsys, "run", path / "best.toml", "--out", tmp_path / "best", *BOTH, *SMALL)


@pytest.mark.slow
def test_jobs_on_this_machine(tmp_path, another_process, capsys):
    path = tmp_path / "jobs"
    said(capsys, *RUN, *SET, "--out", path, "--launcher", "local", "--until-task", 1, code=75)
    another_process()
    assert "random_resets" in said(capsys, "status", path) and plugins.loaded() == ()
    said(capsys, "resume", path, "--quiet")
    rows = load(path)
    assert rows[rows.method == "random_resets"].units_reset.max() > 0
    assert set(rows.task) == {0, 1}
    study, _ = manifest.read(tree.read(path).folder("random_resets"))
    assert [each["file"] for each in study["plugins"]] == [METHOD, EXPERIMENT]


def test_a_file_that_changes_before_a_job_begins(tmp_path, another_process, capsys):
    """Whoever resumes is told at once; a job that is under way by then notes it as its failure."""
    mine, path = tmp_path / "mine.py", tmp_path / "jobs"
    mine.write_text(Path(METHOD).read_text())
    plugins.load(mine)
    jobs = divide(registry.get("permuted_digits", "smoke"), ["random_resets"], [0])
    made = tree.create(path, jobs, {"name": "local"})
    mine.write_text(mine.read_text() + "\n")
    another_process()
    assert "mine.py, which has changed since" in said(capsys, "resume", path, code=2)
    given = RunOptions(plugins=[str(mine)])
    assert worker.main([str(path), "random_resets", "--options", given.dumps()]) == worker.FAILED
    assert "mine.py, which has changed since" in made.failure("random_resets").read_text()
    assert not made.folder("random_resets").exists()


def test_bench(capsys):
    words = ["bench", "methods", "few_digits", *BOTH, "--methods", "adam,random_resets"]
    assert "random_resets" in said(capsys, *words, "--rounds", 1, "--seeds", 1)


@pytest.mark.slow
def test_jobs_on_ray(tmp_path, another_process, capsys):
    pytest.importorskip("ray")
    path = tmp_path / "jobs"
    ray = ["--launcher", "ray", "--ray", "num_cpus=0.5"]
    said(capsys, *RUN, *SET, "--out", path, *ray)
    rows = load(path)
    assert rows[rows.method == "random_resets"].units_reset.max() > 0


@pytest.mark.slow
def test_an_installed_package(tmp_path, install):
    """In processes of their own: nothing is named, nothing is recorded but how the method looks."""
    site = install(Path(METHOD).read_text() + Path(EXPERIMENT).read_text().partition("\n")[2])
    path, env = tmp_path / "jobs", os.environ | {"PYTHONPATH": f"{site}:{ROOT}"}

    def command(*words):
        words = [sys.executable, "-m", "continual_learning.cli", *map(str, words)]
        done = subprocess.run(words, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "few_digits" in command("list")
    run = ["run", "few_digits", "--methods", "random_resets", *SMALL, *SET, "--out", path]
    command(*run, "--launcher", "local")
    rows = load(path)
    assert rows.units_reset.max() > 0
    study, _ = manifest.read(tree.read(path).folder("random_resets"))
    assert "plugins" not in study and study["looks"]["random_resets"]["color"] == "#123456"


def test_a_flag_without_a_file(capsys):
    assert "--plugin: expected one argument" in said(capsys, "list", "--plugin", code=2)
    assert "Unknown option" in said(capsys, "doctor", "--plugin", METHOD, code=2)
    assert plugins.loaded() == ()
    assert "no_such.py cannot be read" in said(capsys, "list", "--plugin", "no_such.py", code=2)
    for name in ("list", "run", "resume", "sweep", "select", "table", "figure", "reproduce"):
        with pytest.raises(SystemExit):
            cli.main([name, "--help"])
        assert "--plugin FILE" in capsys.readouterr().out
