"""Sweeps whose jobs a launcher runs, rung by rung and batch by batch, on the hill."""

import numpy as np
import pytest

from continual_learning import cli
from continual_learning.analysis import load
from tests.sweeps import here as launcher
from tests.sweeps import hill as problem

hill, here = problem.hill, launcher.here
GRID = ["max_reset=0.01:0.05:0.01", "every=100,200,400"]
ORDER = ["hyper_max_reset", "hyper_every", "seed", "step"]
HALVING = ["--halving", "3", "--lanes", "12"]


def words(out, *more):
    start = ["sweep", "permuted_digits", "--method", "cpr", "--grid", *GRID, "--seeds", "2"]
    return [*start, "--tasks", "9", "--rows-per-task", "1", "--quiet", "--out", str(out), *more]


def rows(folder):
    return load(folder).drop(columns="study").sort_values(ORDER, ignore_index=True)


def check_same(one, other):
    assert len(one) == len(other) > 0
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


def test_rungs_are_launched_one_after_the_other(hill, here, capsys):
    assert cli.main(words(hill / "alone", *HALVING)) == 0
    assert cli.main(words(hill / "sweep", *HALVING, "--launcher", "here")) == 0
    path = str(hill / "sweep" / "rungs")
    assert here.given == [
        (f"{path}/00", ["block000", "block001", "block002"], True, None),
        (f"{path}/01", ["block000"], True, None),
        (f"{path}/02", ["block000"], True, None),
    ]
    for place in (".", "rungs/00", "rungs/01", "rungs/02"):
        check_same(rows(hill / "sweep" / place), rows(hill / "alone" / place))
    one, other = ((hill / name / "best.toml").read_text() for name in ("sweep", "alone"))
    assert one == other


def test_batches_are_launched_one_after_the_other(hill, here):
    pytest.importorskip("optuna")
    sampling = ["--sampler", "optuna", "--trials", "6", "--trials-per-batch", "4", "--lanes", "4"]
    assert cli.main(words(hill / "alone", *sampling)) == 0
    launched = ["--launcher", "here", "--time-limit", "1h"]
    assert cli.main(words(hill / "sweep", *sampling, *launched)) == 0
    path = str(hill / "sweep" / "batches")
    assert [(place, names) for place, names, *_ in here.given] == [
        (f"{path}/000", ["block000", "block001"]),
        (f"{path}/001", ["block000"]),
    ]
    limits = [limit for *_, limit in here.given]
    assert 0 < limits[1] < limits[0] <= 3600  # for the sweep as a whole
    check_same(rows(hill / "sweep"), rows(hill / "alone"))


def test_all_jobs_at_once_are_chosen_from_when_they_have_ended(hill, here, capsys):
    asked = [*words(hill / "sweep", "--lanes", "20", "--launcher", "here"), "--tasks", "2"]
    here.failing = {"block001"}
    assert cli.main(asked) == 1
    assert (
        f"When all jobs are finished: continual select {hill / 'sweep'}" in capsys.readouterr().out
    )
    here.failing = set()
    assert cli.main([*asked, "--retry"]) == 0
    assert [names for _, names, *_ in here.given] == [["block000", "block001"], ["block001"]]
    assert (hill / "sweep" / "best.toml").exists()


def test_a_rung_in_which_a_job_failed_is_not_the_last_word(hill, here, capsys):
    out = hill / "sweep"
    here.failing = {"block001"}
    asked = words(out, *HALVING, "--launcher", "here")
    assert cli.main([word for word in asked if word != "--quiet"]) == 1
    said = capsys.readouterr().out
    assert f"To try again what failed: continual resume {out} --retry" in said
    assert f"give the same command again, or: continual resume {out}" in said
    assert not (out / "rungs" / "01").exists()
    here.failing = set()
    assert cli.main(["resume", str(out), "--quiet"]) == 1  # what failed is left alone
    assert len(here.given) == 1
    assert cli.main(["resume", str(out), "--quiet", "--retry"]) == 0
    assert [names for _, names, *_ in here.given[1:]] == [["block001"], ["block000"], ["block000"]]
    assert cli.main(words(hill / "alone", *HALVING)) == 0
    check_same(rows(out), rows(hill / "alone"))


def test_stopped_again_and_again(hill, here):
    """Stopped after every chunk of every job, until the sweep is finished."""
    codes, limit = [], ["--time-limit", "0.001s"]
    while not codes or codes[-1] == 75:
        codes.append(cli.main(words(hill / "sweep", *HALVING, "--launcher", "here", *limit)))
        assert len(codes) < 30
    assert codes[-1] == 0 and len(codes) > 3
    assert cli.main(words(hill / "alone", *HALVING)) == 0
    check_same(rows(hill / "sweep"), rows(hill / "alone"))
