"""Jobs on this machine: processes that are killed and stopped, and who has which GPU."""

import dataclasses
import os
import signal
import subprocess
import sys

import pytest

from continual_learning import cli
from continual_learning.jobs import launchers, manage, process, states, tree
from continual_learning.jobs.launchers import local
from continual_learning.schema.errors import StudyError
from continual_learning.studies.options import RunOptions
from continual_learning.studies.store.store import Store
from tests.jobs.small import (
    FIRST,
    SECOND,
    check_same,
    jobs,
    start,
    wait_for_checkpoint,
    wait_for_line,
    worker_of,
)


def test_a_worker_killed_the_launcher_stopped_and_both_jobs_gone_on_with(
    tmp_path, whole, at_root, capsys
):
    path = tmp_path / "tree"
    parent = start(path, "local")
    made = None
    for name, number in ((FIRST, signal.SIGKILL), (SECOND, signal.SIGTERM)):
        wait_for_checkpoint(path / "jobs" / name, parent)
        made = tree.read(path)
        assert states.state(made, name).word == "running"
        worker, starter = worker_of(made, name)
        assert starter == parent.pid
        wait_for_line(made.log(name), "redo: chunk 1/60", parent)
        os.kill(worker if name == FIRST else parent.pid, number)
    said, _ = parent.communicate(timeout=300)
    assert parent.returncode == 75, said
    assert made is not None
    found = states.states(made)
    assert found[FIRST].word == "failed" and 0 < found[FIRST].done < 60
    assert found[FIRST].reason.startswith("The process was ended by SIGKILL.")
    assert "redo: chunk 1/60" in made.failure(FIRST).read_text()
    assert found[SECOND].word == "to resume" and 0 < found[SECOND].done < 60

    words = ["resume", str(path), "--quiet"]
    assert cli.main([*words, "--time-limit", "0.000001s"]) == 75
    assert states.states(made) == found  # what failed is left alone, and no time was left for more
    assert cli.main([*words, "--retry", "--launcher", "local", "--parallel", "2"]) == 0
    check_same(path, whole)
    command = Store.read(made.folder(FIRST)).environment["command"]
    assert command.startswith(f"python -m continual_learning.jobs.worker {path} {FIRST}")
    assert cli.main(["status", str(path)]) == 0
    assert "2 jobs, 2 finished" in capsys.readouterr().out
    assert cli.main(words) == 0  # nothing left to do


def test_jobs_that_fail_do_not_stop_the_others(tmp_path, monkeypatch):
    """Processes that only seem to be workers: one fails, one is finished at once."""
    started = []

    def started_instead(tree, name, running, environment):
        tree.log(name).touch()
        started.append((name, running.time_limit, dict(environment)))
        return subprocess.Popen([sys.executable, "-c", f"raise SystemExit({3 * (name == FIRST)})"])

    monkeypatch.setattr(local.process, "start", started_instead)
    monkeypatch.setattr(local, "gpus", lambda: ["4", "6"])
    launcher = launchers.make("local", {})
    # Nothing was run, so that of the second job there is everything to do.
    assert manage.begin(tmp_path / "tree", jobs(), launcher, RunOptions(quiet=True)) == 75
    assert started == [
        (FIRST, None, {"CUDA_VISIBLE_DEVICES": "4"}),
        (SECOND, None, {"CUDA_VISIBLE_DEVICES": "6"}),
    ]
    made = tree.read(tmp_path / "tree")
    assert states.state(made, FIRST).reason == "The process ended with exit code 3."
    assert launchers.from_dict(made.launcher) == launcher
    started.clear()
    assert manage.resume(made.path, options=RunOptions(quiet=True, time_limit=100.0)) == 75
    [(name, limit, _)] = started
    assert name == SECOND and 0 < limit <= 100
    manage.resume(made.path, options=RunOptions(quiet=True), retry=True)
    assert [name for name, *_ in started[1:]] == [FIRST, SECOND]


def test_a_failure_that_was_noted_stays(tmp_path):
    made = tree.create(tmp_path / "tree", jobs(), {"name": "local"})
    made.failure(FIRST).write_text("ValueError: why\n")
    made.log(SECOND).write_text("last words\n")
    for name, code in ((FIRST, 1), (SECOND, 0), (SECOND, 75)):
        process.note_end(made, name, code)
    assert made.failure(FIRST).read_text() == "ValueError: why\n"
    assert not made.failure(SECOND).exists()
    process.note_end(made, SECOND, -signal.SIGSEGV)
    assert "last words" in made.failure(SECOND).read_text()
    assert states.state(made, SECOND).reason == "The process was ended by SIGSEGV."


def test_who_has_which_gpu(monkeypatch):
    assert local.places(None, []) == [{}]
    assert local.places(3, []) == [{}, {}, {}]
    assert local.places(1, ["0", "1"]) == [{}]  # one job shards its seeds over all
    assert local.places(None, ["0", "2"]) == [{"CUDA_VISIBLE_DEVICES": n} for n in "02"]
    shared = local.places(3, ["0", "2"])
    assert [each["CUDA_VISIBLE_DEVICES"] for each in shared] == ["0", "2", "0"]
    assert {each["XLA_PYTHON_CLIENT_MEM_FRACTION"] for each in shared} == {"0.450"}
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1, GPU-8a")
    assert local.gpus() == ["1", "GPU-8a"]
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert local.gpus() == []


def test_options_that_are_wrong(tmp_path, capsys):
    with pytest.raises(StudyError, match=r"Unknown launcher 'loca'.*Did you mean 'local'"):
        launchers.make("loca", {})
    with pytest.raises(StudyError, match="parallel must be a whole number, at least 1; got 0"):
        launchers.make("local", {"parallel": 0})
    with pytest.raises(StudyError, match="Unknown option of the launcher local 'partition'"):
        launchers.make("local", {"partition": "gpu"})
    run = ["run", "permuted_digits", "--scale", "smoke", "--out", str(tmp_path / "new")]
    for words, message in [
        ([*run, "--parallel", "2"], "--parallel goes with --launcher"),
        ([*run, "--seeds-per-job", "2"], "--seeds-per-job goes with --launcher"),
        ([*run, "--launcher", "local", "--parallel", "0"], "at least 1; got '0'"),
        ([*run, "--launcher", "none"], "Unknown launcher 'none'"),
        (["resume", str(tmp_path), "--retry"], "is one study, without jobs"),
    ]:
        assert cli.main(words) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_options_reach_the_worker():
    given = RunOptions(
        time_limit=5.5,
        quiet=True,
        sinks=["wandb"],
        deterministic=True,
        trust_modules=True,
        until_task=3,
        checkpoint_seconds=7.0,
        on_nonfinite="stop",
        chunks=4,
        plugins=["my method.py"],
    )
    usual = RunOptions()
    names = [each.name for each in dataclasses.fields(RunOptions)]
    assert all(getattr(given, name) != getattr(usual, name) for name in names)
    assert RunOptions.loads(given.dumps()) == given and RunOptions.loads(usual.dumps()) == usual
