"""Successive halving on the hill, and states that go on in other folders."""

import numpy as np
import pytest

from continual_learning import cli
from continual_learning.analysis import load
from continual_learning.jobs import tree
from continual_learning.schema.errors import StudyError
from continual_learning.studies import build, registry
from continual_learning.studies.store.store import Store
from continual_learning.sweeps import blocks
from continual_learning.sweeps.halving import Rung, rungs
from tests.studies import counting
from tests.sweeps import hill as problem

hill = problem.hill
GRID = ["max_reset=0.01:0.05:0.01", "every=100,200,400"]


def words(out, *more, tasks="9"):
    start = ["sweep", "permuted_digits", "--method", "cpr", "--grid", *GRID, "--seeds", "2"]
    return [*start, "--tasks", tasks, "--rows-per-task", "1", "--quiet", "--out", str(out), *more]


def rows(folder):
    frame = load(tree.studies(folder)).drop(columns="study")
    order = ["hyper_max_reset", "hyper_every", "seed", "step"]
    return frame.sort_values(order, ignore_index=True)


def test_rungs():
    steps = problem.SPEC.steps_per_task
    assert rungs(problem.SPEC, 15, 3) == [
        Rung(15, 1, steps),
        Rung(5, 3, 3 * steps),
        Rung(1, 9, 9 * steps),
    ]
    assert rungs(problem.SPEC, 4, 3) == [Rung(4, 3, 3 * steps), Rung(1, 9, 9 * steps)]
    assert rungs(problem.SPEC, 2, 3) == [Rung(2, 9, 9 * steps)]
    # One task: rungs end with chunks, of which there are 20.
    arm = registry.get("mt1").override(rows_per_chunk=20, eval_every=0)
    assert [rung.chunks for rung in rungs(arm, 24, 3)] == [3, 7, 20]
    assert [rung.configurations for rung in rungs(arm, 24, 3)] == [24, 8, 2]
    with pytest.raises(StudyError, match="at least 2"):
        rungs(problem.SPEC, 4, 1)


def test_the_top_is_found_with_fewer_steps(hill, capsys):
    assert cli.main(words(hill / "sweep", "--halving", "3", "--lanes", "12")) == 0
    best = registry.get(hill / "sweep" / "best.toml")
    assert best.methods["cpr"].options == problem.BEST
    places = [hill / "sweep" / "rungs" / name for name in ("00", "01", "02")]
    lanes = [sum(job.study.lanes for job in tree.read(p).jobs.values()) for p in places]
    assert lanes == [30, 10, 2]
    last = [rows(place).task.max() for place in places]
    assert last == [0, 2, 8]
    # What was promoted has the rows that it has in a sweep that drops nothing.
    assert cli.main(words(hill / "whole")) == 0
    whole = rows(hill / "whole")
    for place, count in zip(places, (1, 3, 9), strict=True):
        found = rows(place)
        kept = whole.merge(found[["hyper_max_reset", "hyper_every", "seed"]].drop_duplicates())
        expected = kept[kept.task < count].reset_index(drop=True)
        order = ["hyper_max_reset", "hyper_every", "seed", "step"]
        expected = expected.sort_values(order, ignore_index=True)
        assert len(found) == len(expected)
        for name in found:
            np.testing.assert_array_equal(found[name], expected[name])


def test_what_is_promoted_is_not_run_again(hill, monkeypatch):
    go, done = blocks.run, []

    def noting(folder, options):
        found = [Store.read(each).progress() for each in tree.studies(folder)]
        done.append([each["cpr"] for each in found])
        return go(folder, options)

    monkeypatch.setattr(blocks, "run", noting)
    assert cli.main(words(hill / "sweep", "--halving", "3", "--lanes", "6")) == 0
    assert done == [[], [1, 1], [3]]


def test_it_goes_on_where_it_was_stopped(hill, capsys):
    """Stopped after every chunk, until it is finished."""
    halving = ["--halving", "3", "--lanes", "20"]
    assert cli.main(words(hill / "through", *halving)) == 0
    codes = []
    while not codes or codes[-1] == 75:
        codes.append(cli.main(words(hill / "parts", *halving, "--time-limit", "0.001s")))
        assert len(codes) < 30
    assert codes[-1] == 0 and len(codes) > 5
    for rung in ("00", "01", "02"):
        one, other = (rows(hill / name / "rungs" / rung) for name in ("through", "parts"))
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])


def test_a_promotion_that_was_killed_begins_anew(hill, monkeypatch):
    save = Store.save

    def killed(self, *args):
        if "rungs/01" in str(self.path):
            raise KeyboardInterrupt
        return save(self, *args)

    monkeypatch.setattr(Store, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        cli.main(words(hill / "sweep", "--halving", "3"))
    monkeypatch.setattr(Store, "save", save)
    assert cli.main(words(hill / "sweep", "--halving", "3")) == 0
    assert registry.get(hill / "sweep" / "best.toml").methods["cpr"].options == problem.BEST


def test_a_replay_goes_on_in_another_folder(hill, monkeypatch):
    """What is drawn from a ring after a promotion is what a run of its own draws."""

    def trainer(experiment, method, shared):
        return counting.collector(chunks=6)

    def swept(name, *more):
        grid = ["learning_rate=0.1,0.2"]
        start = ["sweep", "permuted_digits", "--method", "adam", "--grid", *grid, "--seeds", "3"]
        small = ["--tasks", "6", "--examples-per-task", "16", "--rows-per-task", "1"]
        words = [*start, *small, "--metric", "value", "--quiet", "--out", str(hill / name)]
        assert cli.main([*words, *more]) == 0

    monkeypatch.setattr(build, "trainer", trainer)
    swept("whole")
    swept("halved", "--halving", "2", "--lanes", "2")  # so that a configuration is in two blocks
    whole = load(tree.studies(hill / "whole"))
    found = load(tree.studies(hill / "halved" / "rungs" / "01"))
    assert len(found) == 3 * 6 * 2
    for (rate, seed), lane in found.groupby(["hyper_learning_rate", "seed"]):
        same = whole[(whole.hyper_learning_rate == rate) & (whole.seed == seed)]
        np.testing.assert_array_equal(lane.value, same.value)


def test_what_cannot_be_asked(hill, capsys):
    assert cli.main(words(hill / "a", "--halving", "1")) == 2
    assert "--halving must be a whole number, at least 2" in capsys.readouterr().err
