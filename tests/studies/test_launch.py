"""Studies in a folder: run, killed, stopped, resumed, read; the same numbers each way."""

import dataclasses
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest

from continual_learning.analysis import load
from continual_learning.envs.errors import DatasetError
from continual_learning.installation import VERSION
from continual_learning.schema.errors import StudyError
from continual_learning.studies import build, launch, registry, spec
from continual_learning.studies.options import RunOptions
from continual_learning.studies.runner import Compiled
from continual_learning.studies.store.files import StoreError
from continual_learning.studies.store.store import Store

ROOT = Path(__file__).parents[2]
METHODS, SEEDS = ["adam", "cpr"], [0, 3]
RUN = """
import sys
from pathlib import Path
from continual_learning.studies import launch
from continual_learning.studies.options import RunOptions
from tests.studies.test_launch import METHODS, SEEDS, experiment
path, options = Path(sys.argv[1]), RunOptions(quiet=True, checkpoint_seconds=0)
if (path / "study.toml").exists():
    code = launch.resume(path, options)
else:
    code = launch.run(experiment(), METHODS, SEEDS, path, options)
sys.exit(code)
"""


def experiment(**fields):
    """A study of seconds, whose CPR resets in every task."""
    small = registry.get("permuted_digits").override(
        tasks=6, examples_per_task=64, hidden=(8,), rows_per_task=2, **{"cpr.every": 3}
    )
    return small.override(**fields)


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """A study that nothing interrupted."""
    path = tmp_path_factory.mktemp("whole") / "study"
    assert launch.run(experiment(), METHODS, SEEDS, path, RunOptions(quiet=True)) == 0
    return path


def same(path, whole):
    """Metrics and states of two studies are equal, bit for bit."""
    pd.testing.assert_frame_equal(load(path), load(whole), check_exact=True)
    for method in METHODS:
        (left, right) = (sorted((p / "checkpoints" / method).iterdir())[-1] for p in (path, whole))
        assert left.name == right.name
        files = sorted(f.name for f in left.iterdir())
        assert files == sorted(f.name for f in right.iterdir()) and len(files) >= len(SEEDS)
        for name in (n for n in files if n.endswith(".npz")):
            with np.load(left / name) as a, np.load(right / name) as b:
                assert a.files == b.files
                for key in a.files:
                    np.testing.assert_array_equal(a[key], b[key])


def test_what_a_study_leaves(whole):
    table = load(whole)
    assert len(table) == 2 * 2 * 6 * 2  # methods, seeds, tasks, rows
    assert table.columns[:4].tolist() == ["method", "seed", "step", "task"]
    assert not table.duplicated(["method", "seed", "step"]).any()
    assert (table[table.method == "cpr"].units_reset.max() > 0) and (
        table[table.method == "adam"].units_reset == 0
    ).all()
    facts = Store.read(whole).environment
    assert facts["backend"] == "cpu" and facts["packages"]["jax"]
    assert "adam: finished" in (whole / "log.txt").read_text()
    said = launch.status(whole)
    assert "6 of 6 chunks  finished" in said and "2 seeds, 2 methods" in said
    # Methods meet the same tasks from the same weights: until the first reset they are equal.
    first = table[(table.task == 0) & (table.step == table.step.min())]
    assert first.groupby("seed").online_accuracy.nunique().eq(1).all()


def test_what_is_finished_is_not_begun_again(whole, tmp_path, monkeypatch):
    path = tmp_path / "copy"
    shutil.copytree(whole, path)
    monkeypatch.setattr(launch.build, "trainer", None)
    assert launch.resume(path, RunOptions(quiet=True, time_limit=1e-9)) == 0


def test_a_study_whose_checkpoints_were_removed_stays_finished(whole, tmp_path, monkeypatch):
    path = tmp_path / "study"
    more = {"quiet": True, "checkpoint_seconds": 0}
    assert launch.run(experiment(), METHODS, SEEDS, path, RunOptions(until_task=4, **more)) == 75
    shutil.rmtree(path / "checkpoints/cpr")
    assert "4 of 6 chunks  to resume" in launch.status(path)
    with pytest.raises(StoreError, match="of cpr, but its checkpoints are gone"):
        launch.resume(path, RunOptions(**more))  # after Adam has come to its end
    shutil.rmtree(path / "checkpoints")
    assert re.search("adam +6 of 6 chunks  finished", launch.status(path))
    shutil.rmtree(path / "metrics/cpr")
    assert launch.resume(path, RunOptions(**more)) == 0
    shutil.rmtree(path / "checkpoints")
    monkeypatch.setattr(launch.build, "trainer", None)
    assert launch.resume(path, RunOptions(**more)) == 0
    pd.testing.assert_frame_equal(load(path), load(whole), check_exact=True)


def test_until_a_task_every_method_comes_so_far_and_resuming_goes_on(whole, tmp_path, monkeypatch):
    path = tmp_path / "study"
    code = launch.run(experiment(), METHODS, SEEDS, path, RunOptions(quiet=True, until_task=2))
    assert code == launch.REQUEUE
    assert Store.read(path).progress() == dict.fromkeys(METHODS, 2)
    with monkeypatch.context() as patch:  # nothing is left to compile
        patch.setattr(Compiled, "compile", None)
        assert launch.resume(path, RunOptions(quiet=True, until_task=2)) == launch.REQUEUE
    assert Store.read(path).progress() == dict.fromkeys(METHODS, 2)
    assert launch.resume(path, RunOptions(quiet=True, until_task=9)) == 0
    same(path, whole)


def test_a_time_limit_ends_at_the_next_chunk_and_resuming_goes_on(whole, tmp_path):
    path = tmp_path / "study"
    code = launch.run(experiment(), METHODS, SEEDS, path, RunOptions(quiet=True, time_limit=0))
    assert code == launch.REQUEUE
    assert "1 of 6 chunks  to resume" in launch.status(path)
    assert launch.resume(path, RunOptions(quiet=True, time_limit=0)) == launch.REQUEUE
    assert launch.resume(path, RunOptions(quiet=True)) == 0
    same(path, whole)
    [line] = re.findall(".* resumed .*", (path / "log.txt").read_text())[:1]
    facts = Store.read(path).environment
    begun = f"{facts['commit'] or 'not known'}, Python {facts['python']}, jax {jax.__version__}, "
    assert f" resumed by plasticax {VERSION}, commit {begun}" in line
    for limit in (None, 0):  # nothing left to do, so no time is too short
        assert launch.resume(path, RunOptions(quiet=True, time_limit=limit)) == 0
    same(path, whole)


def test_methods_that_are_compiled_in_their_turn_have_the_same_numbers(
    whole, tmp_path, monkeypatch
):
    """As the next one's program is compiled in `whole` while one runs."""
    path = tmp_path / "study"
    monkeypatch.setattr(launch, "one_ahead", map)
    assert launch.run(experiment(), METHODS, SEEDS, path, RunOptions(quiet=True)) == 0
    same(path, whole)


def test_a_method_that_fails_leaves_the_one_before_it_and_is_gone_on_with(
    whole, tmp_path, monkeypatch
):
    path = tmp_path / "study"

    def broken(state, hyper, data):
        raise RuntimeError("no program")

    def trainer(experiment, method, data, made=build.trainer):
        good = made(experiment, method, data)
        return good if method == "adam" else dataclasses.replace(good, chunk=broken)

    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="no program"):
        patch.setattr(build, "trainer", trainer)
        launch.run(experiment(), METHODS, SEEDS, path, RunOptions(quiet=True))
    assert Store.read(path).progress() == {"adam": 6}
    log = (path / "log.txt").read_text()
    assert log.index("adam: finished") < log.index("cpr: begins") and "cpr: f" not in log
    built = []

    def noting(experiment, method, data, made=build.trainer):
        built.append(method)
        return made(experiment, method, data)

    monkeypatch.setattr(build, "trainer", noting)
    assert launch.resume(path, RunOptions(quiet=True)) == 0
    assert built == ["cpr"]
    same(path, whole)


def start(path):
    return subprocess.Popen(
        [sys.executable, "-c", RUN, str(path)],
        cwd=ROOT,
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for(path, pattern, process):
    """Until the study has a file like this, or has ended."""
    while process.poll() is None and not list(path.glob(pattern)):
        time.sleep(0.01)


def check_killed(whole, path, kills, rng):
    for _ in range(kills):
        process = start(path)
        wait_for(path, "metrics/*/part-*.parquet", process)
        time.sleep(rng.random() * 1.5)
        process.kill()
        process.communicate()
    process = start(path)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    same(path, whole)


def test_killed_at_random_moments(whole, tmp_path):
    check_killed(whole, tmp_path / "study", 2, random.Random(0))


@pytest.mark.slow
def test_killed_at_many_random_moments(whole, tmp_path):
    for i in range(5):
        check_killed(whole, tmp_path / f"study{i}", 4, random.Random(i + 1))


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_signals_end_at_the_next_chunk(whole, tmp_path, number):
    path = tmp_path / "study"
    process = start(path)
    wait_for(path, "metrics/adam/part-*.parquet", process)
    process.send_signal(number)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == launch.REQUEUE, output
    assert launch.resume(path, RunOptions(quiet=True)) == 0
    same(path, whole)


STUCK = """
import sys, time
from continual_learning import cli
from continual_learning.studies import build
def trainer(experiment, method, data, made=build.trainer):
    time.sleep(0 if method == "adam" else 3600)
    return made(experiment, method, data)
build.trainer = trainer
sys.exit(cli.main())
"""


def test_what_is_being_compiled_does_not_keep_a_study_from_ending(tmp_path):
    spec.save(experiment(), tmp_path / "small.toml")
    words = ["run", "small.toml", "--methods", "adam,cpr", "--seeds", "1", "--out", "study"]
    script = [sys.executable, "-c", STUCK, *words, "--time-limit", "0.001"]
    env = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        script, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == launch.REQUEUE, done.stderr
    assert "Stopped with everything kept" in done.stdout and not done.stderr
    assert Store.read(tmp_path / "study").progress() == {"adam": 1}


def test_a_study_says_how_its_programs_are_compiled(tmp_path, monkeypatch):
    told = []

    def note(self, fresh, quick):
        told.append((fresh, quick))
        raise StudyError("enough")

    monkeypatch.setattr(Compiled, "compile", note)
    for compilation in ("full", "quick"):
        small = experiment(compilation=compilation)
        with pytest.raises(StudyError, match="enough"):
            launch.run(small, ["adam"], [0], tmp_path / compilation, RunOptions(quiet=True))
    assert told == [(True, False), (True, True)]


def test_a_folder_that_holds_a_study_is_not_run_over(whole):
    with pytest.raises(StoreError, match="holds a study already"):
        launch.run(experiment(), METHODS, SEEDS, whole, RunOptions(quiet=True))


def test_lines_when_it_is_no_terminal(tmp_path, capsys):
    logged = RunOptions(sinks=["tensorboard"])
    assert launch.run(experiment(tasks=2), ["adam"], [0], tmp_path / "study", logged) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "adam: begins"
    assert lines[-1].startswith("adam: chunk 2/2, test_accuracy 0.") and "steps/s" in lines[-1]
    assert list((tmp_path / "study" / "tensorboard" / "adam" / "seed_0").glob("events*"))


def test_what_is_missing_leaves_no_folder(tmp_path):
    mnist = registry.get("permuted_mnist").override(data_folder=str(tmp_path / "nowhere"))
    with pytest.raises(DatasetError, match="nowhere"):
        launch.run(mnist, ["adam"], [0], tmp_path / "study", RunOptions(quiet=True))
    assert not (tmp_path / "study").exists()
