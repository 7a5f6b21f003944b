"""Jobs that run out of memory fail, say with how many lanes, and keep what was done."""

import signal

import jax
import numpy as np
import pytest

from continual_learning.analysis import load
from continual_learning.jobs import manage, process, states, tree, worker
from continual_learning.jobs.job import Job
from continual_learning.studies import build, launch
from continual_learning.studies.options import RunOptions
from continual_learning.studies.store.store import Store
from continual_learning.studies.study import Study
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
    assert launch.run(*run, RunOptions(quiet=True), hyper=LANES.hyper) == 0
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


def test_a_job_fails_and_goes_on_where_there_is_more_memory(made, whole, greedy):
    greedy[:] = 2, 1
    assert worker.work(made, "all", RunOptions(checkpoint_seconds=0.0)) == worker.FAILED
    failed = states.state(made, "all")
    assert (failed.word, failed.done) == ("failed", 1)
    for told in (f"{made.folder('all')} ran out of memory with 5 lanes in one program", "--retry"):
        assert told in failed.reason
    for option in ("--seeds-per-job", "--lanes", "--memory"):
        assert option in failed.reason
    assert "RESOURCE_EXHAUSTED" in made.failure("all").read_text()
    assert list(tree.read(made.path).jobs) == ["all", "b"]
    greedy[0] = 100
    manage.resume(made.path, _Here())
    assert states.state(made, "all").word == "failed" and states.state(made, "b").word == "finished"
    assert manage.resume(made.path, _Here(), retry=True) == 0
    assert "resumed" in (made.folder("all") / "log.txt").read_text()
    check_same(load([made.folder("all")]), whole)


def test_a_single_lane(hill, greedy):
    greedy[0] = 0
    one = Study(LANES.experiment, ["cpr"], [0])
    made = tree.create(hill / "t", [Job("one", one)], {"name": "local"})
    assert worker.work(made, "one", RunOptions()) == worker.FAILED
    reason = states.state(made, "one").reason
    assert "ran out of memory with a single lane. Use fewer environments" in reason
    assert "--seeds-per-job" not in reason


def test_too_little_memory_for_the_data_itself(made, whole, monkeypatch):
    """There is no folder then, and it is begun again."""
    with monkeypatch.context() as patch:
        patch.setattr(build, "data", _full)
        assert worker.work(made, "all", RunOptions()) == worker.FAILED
    assert "5 lanes in one program" in states.state(made, "all").reason
    assert not made.folder("all").exists()
    assert manage.resume(made.path, _Here(), retry=True) == 0
    check_same(load([made.folder("all")]), whole)


def test_an_end_that_the_process_could_not_note(made):
    made.log("all").write_text("last words\n")
    process.note_end(made, "all", -signal.SIGKILL)
    said = made.failure("all").read_text()
    assert "last words" in said and "too little memory?" in said
    assert states.state(made, "all").reason.startswith("The process was ended by SIGKILL.")
    process.note_end(made, "all", 1)
    assert made.failure("all").read_text() == said  # why it ended is known
    process.note_end(made, "b", 75)
    assert not made.failure("b").exists()


def _full(*_):
    raise FULL


class _Here:
    """A launcher whose processes are this one."""

    def check(self):
        pass

    def options(self):
        return {}

    def run(self, tree, names, running, *, wait=False):
        return all(worker.work(tree, name, running) in (0, 75) for name in names)
