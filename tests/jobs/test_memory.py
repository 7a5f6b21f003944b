"""Jobs that run out of memory become two, with all that was done."""

import signal

import jax
import numpy as np
import pytest

from continual_learning.analysis import load
from continual_learning.jobs import manage, memory, process, states, tree, worker
from continual_learning.jobs.gather import gather
from continual_learning.jobs.job import Job
from continual_learning.jobs.running import Running
from continual_learning.schema.errors import StudyError
from continual_learning.studies import build, launch
from continual_learning.studies.store.store import Store
from continual_learning.studies.study import Study
from tests.studies import counting
from tests.sweeps import hill as problem

hill = problem.hill
LANES = Study(
    problem.SPEC.override(tasks=3),
    ["cpr"],
    [0, 1, 2, 3, 4],
    {"max_reset": [0.1, 0.2, 0.3, 0.4, 0.5]},
)
FULL = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")


@pytest.fixture
def made(hill):
    return tree.create(hill / "tree", [Job("all", LANES), Job("b", LANES)], {"name": "local"})


@pytest.fixture
def whole(hill):
    """The rows of a job for which there was enough memory."""
    out = hill / "whole"
    run = [LANES.experiment, ["cpr"], LANES.seeds, out]
    assert launch.run(*run, hyper=LANES.hyper, quiet=True) == 0
    return load(out)


@pytest.fixture
def greedy(monkeypatch):
    """(lanes, chunks): programs with more lanes run out of memory after so many chunks."""
    save, limit = Store.save, [100, 0]

    def full(self, method, chunk, state, lanes, ring):
        if lanes > limit[0] and chunk >= limit[1]:
            raise FULL
        return save(self, method, chunk, state, lanes, ring)

    monkeypatch.setattr(Store, "save", full)
    return limit


def check_same(rows, whole):
    rows = rows.drop(columns="study").sort_values(["seed", "step"], ignore_index=True)
    assert len(rows) == len(whole)
    for name in rows:
        np.testing.assert_array_equal(rows[name], whole[name])


def lanes(made):
    return {name: job.study.lanes for name, job in tree.read(made.path).jobs.items()}


def test_the_process_of_a_job_runs_both_halves(made, whole, greedy, capsys):
    greedy[0] = 2
    assert worker.work(made, "all", Running(checkpoint_seconds=0.0)) == 0
    assert lanes(made) == {"alla": 2, "allba": 1, "allbb": 2, "b": 5}
    said = (made.path / "log.txt").read_text()
    assert "all: 5 lanes ran out of memory; two jobs of 2 and 3 instead." in said
    assert "allb: 3 lanes ran out of memory; two jobs of 1 and 2 instead." in said
    now = tree.read(made.path)
    check_same(load(made.path), whole)
    assert [state.word for state in states.states(now).values()] == [*["finished"] * 3, "not begun"]
    left = {path.name for path in now.folder("all").iterdir()}
    assert left == {"environment.json", "lock", "log.txt"} and not now.failure("all").exists()
    # A scheduler that queues the job again knows it by its old name.
    assert worker.work(now, "all", Running()) == 0
    assert worker.work(made, "all", Running()) == 0
    assert worker.work(made, "b", Running(time_limit=0.0)) == 75
    assert lanes(made) == {"alla": 2, "allba": 1, "allbb": 2, "ba": 2, "bb": 3}


def test_what_was_done_is_not_lost(made, whole, greedy):
    assert worker.work(made, "all", Running(time_limit=0.0)) == 75
    before = load(made.path)
    greedy[:] = 4, 0  # as on a smaller device
    assert worker.work(made, "all", Running(time_limit=0.0)) == 75
    assert lanes(made) == {"alla": 2, "allb": 3, "b": 5}
    done = {name: state.done for name, state in states.states(tree.read(made.path)).items()}
    assert done == {"alla": 2, "allb": 1, "b": 0}
    assert len(before) == 5 * 2
    assert "goes on from" in (made.path / "jobs" / "alla" / "log.txt").read_text()
    assert manage.resume(made.path, _Here()) == 0
    rows = load([made.path / "jobs" / name for name in ("alla", "allb")])
    check_same(rows, whole)


def test_what_lies_beside_the_store_stays(made, greedy):
    """The log of the job and its curves up to there; those of the halves go on from there."""
    running, own = Running(time_limit=0.0, sinks=("tensorboard",)), made.folder("all")
    assert worker.work(made, "all", running) == 75
    log, curves = (own / "log.txt").read_text(), _files(own / "tensorboard")
    assert {path.parent.name for path in curves} == {
        f"seed_{i}-max_reset=0.{i + 1}" for i in range(5)
    }
    greedy[0] = 4
    assert worker.work(made, "all", running) == 75
    assert (own / "log.txt").read_text().startswith(log) and "cpr" in log
    assert curves.items() <= _files(own / "tensorboard").items()
    assert len(_files(made.folder("alla") / "tensorboard")) == 2
    assert states.states(tree.read(made.path)).keys() == {"alla", "allb", "b"}


def test_a_replay_is_divided(hill, monkeypatch, greedy):
    """What is drawn from a ring afterwards is what a run of its own draws."""
    monkeypatch.setattr(build, "trainer", lambda *_: counting.collector(chunks=3))
    study = Study(LANES.experiment, ["adam"], [0, 1, 2])
    made = tree.create(hill / "ring", [Job("all", study)], {"name": "local"})
    assert launch.run(study.experiment, ["adam"], study.seeds, hill / "one", quiet=True) == 0
    assert worker.work(made, "all", Running(time_limit=0.0)) == 75
    greedy[0] = 2
    assert worker.work(made, "all", Running()) == 0
    assert lanes(made) == {"alla": 1, "allb": 2}
    check_same(load(made.path), load(hill / "one"))


def test_killed_while_it_was_divided(made, whole, greedy, monkeypatch):
    assert worker.work(made, "all", Running(time_limit=0.0)) == 75
    greedy[0] = 4
    replace = tree.replace
    monkeypatch.setattr(tree, "replace", _kill)
    assert worker.work(made, "all", Running()) == 75
    assert lanes(made) == {"all": 5, "b": 5} and (made.path / "jobs" / "alla").exists()
    monkeypatch.setattr(tree, "replace", replace)
    assert worker.work(made, "all", Running()) == 0
    check_same(load([made.path / "jobs" / name for name in ("alla", "allb")]), whole)


def test_a_single_lane_and_several_methods(hill, greedy):
    greedy[0] = 0
    one = Study(LANES.experiment, ["cpr"], [0])
    both = Study(LANES.experiment, ["cpr", "adam"], [0, 1])
    made = tree.create(hill / "t", [Job("one", one), Job("both", both)], {"name": "local"})
    assert worker.work(made, "one", Running()) == 1
    assert "ran out of memory with a single lane" in states.state(made, "one").reason
    greedy[:] = 1, 1
    assert worker.work(made, "both", Running(checkpoint_seconds=0.0)) == 1
    reason = made.failure("both").read_text()
    assert "ran out of memory after some chunks, with everything kept" in reason
    assert states.state(made, "both").done == 1


def test_an_end_that_the_process_could_not_note(made, greedy):
    """Is noted of the half that it was running."""
    greedy[0] = 4
    assert worker.work(made, "all", Running(time_limit=0.0)) == 75
    made.log("all").write_text("last words\n")
    process.note_end(made, "all", -signal.SIGKILL)
    now = tree.read(made.path)
    assert not now.failure("all").exists()
    assert states.state(now, "alla").reason.startswith("The process was ended by SIGKILL.")
    process.note_end(made, "all", 1)
    assert not now.failure("allb").exists()  # why it ended is known


def test_two_processes_divide_two_jobs(made, greedy, monkeypatch):
    """Neither undoes what the other wrote meanwhile."""
    greedy[0] = 4
    gathered = memory.divide

    def meanwhile(study, size):
        monkeypatch.setattr(memory, "divide", gathered)
        assert worker.work(made, "b", Running(time_limit=0.0)) == 75
        return gathered(study, size)

    monkeypatch.setattr(memory, "divide", meanwhile)
    assert worker.work(made, "all", Running(time_limit=0.0)) == 75
    assert lanes(made) == {"alla": 2, "allb": 3, "ba": 2, "bb": 3}


def test_too_little_memory_for_the_data_itself(made, whole, monkeypatch):
    """There is no folder then."""
    run, tried = launch.run, []

    def full(*args, **options):
        tried.append(len(args[2]))
        if len(tried) == 1:
            raise FULL
        return run(*args, **options)

    monkeypatch.setattr(launch, "run", full)
    assert worker.work(made, "all", Running()) == 0
    assert tried == [5, 2, 3]
    check_same(load(made.path), whole)


def test_lanes_that_are_not_equally_far_do_not_go_on_together(hill):
    folders = [hill / name for name in "ab"]
    for seed, (folder, chunks) in enumerate(zip(folders, (1, 2), strict=True)):
        run = [LANES.experiment, ["cpr"], [seed], folder]
        assert launch.run(*run, chunks=chunks, quiet=True) == 0
    study = Study(LANES.experiment, ["cpr"], [0, 1])
    with pytest.raises(
        StudyError, match=r"from the same chunk on, not from .*a after 1, .*b after 2"
    ):
        gather(hill / "both", study, [(folder, 0) for folder in folders])
    assert not (hill / "both").exists()


def _files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _kill(*_):
    raise KeyboardInterrupt


class _Here:
    """A launcher whose processes are this one."""

    def check(self):
        pass

    def options(self):
        return {}

    def run(self, tree, names, running, *, wait=False):
        return all(worker.work(tree, name, running) in (0, 75) for name in names)
