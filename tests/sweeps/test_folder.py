"""What looks at the folder of a halved or sampled sweep, and goes on with it, on the hill."""

import tomllib

import numpy as np
import pytest

from continual_learning import cli
from continual_learning.analysis import load
from continual_learning.jobs import launchers
from continual_learning.report import studies
from continual_learning.report.live import Live
from continual_learning.report.series import locate
from continual_learning.schema.errors import StudyError
from continual_learning.studies.contents import Part, parts
from continual_learning.studies.store.files import StoreError
from continual_learning.sweeps.sweep import Setup, read_setup
from tests.sweeps import here as launcher
from tests.sweeps import hill as problem

hill, here = problem.hill, launcher.here
GRID = ["max_reset=0.01,0.02,0.03,0.04"]
STOP = ["--time-limit", "0.001s"]


def words(out, *more):
    start = ["sweep", "permuted_digits", "--method", "cpr", "--grid", *GRID, "--seeds", "2"]
    return [*start, "--tasks", "4", "--rows-per-task", "1", "--quiet", "--out", str(out), *more]


def rows(folder):
    order = ["hyper_max_reset", "seed", "step"]
    return load(folder).drop(columns="study").sort_values(order, ignore_index=True)


def check_same(one, other):
    assert len(one) == len(other) > 0
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


def test_a_halved_sweep_goes_on_from_its_folder(hill, capsys):
    out, asked = hill / "sweep", ["--halving", "2", "--lanes", "6", "--tasks", "8"]
    assert cli.main(words(hill / "through", *asked)) == 0
    loud = [word for word in words(out, *asked, *STOP) if word != "--quiet"]
    assert cli.main(loud) == 75
    said = capsys.readouterr().out
    assert f"or: continual resume {out}\n" in said and "jobs/block000" not in said
    assert cli.main(["status", str(out)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{out}: cpr on permuted_digits, 4 configurations to be halved by 2",
        "rung 1 of 3: 4 configurations until 2 of 8 chunks",
        f"  {out}/rungs/00: 2 jobs, 1 to resume, 1 not begun",
        "    block000      1 of 2 chunks  to resume",
        "    block001      0 of 2 chunks  not begun",
        "rung 2 of 3: 2 configurations until 4 of 8 chunks",
        f"  {out}/rungs/01: not begun",
        "rung 3 of 3: 1 configuration until 8 of 8 chunks",
        f"  {out}/rungs/02: not begun",
    ]
    codes = []
    while not codes or codes[-1] == 75:
        codes.append(cli.main(["resume", str(out), "--quiet", *STOP]))
        assert len(codes) < 30
    assert codes[-1] == 0 and len(codes) > 2
    check_same(rows(out), rows(hill / "through"))
    same = [(hill / name / "best.toml").read_text() for name in ("sweep", "through")]
    assert same[0] == same[1]
    capsys.readouterr()
    assert cli.main(["status", str(out)]) == 0
    said = capsys.readouterr().out
    assert said.count("chunks  finished") == 4
    assert " to resume" not in said and "not begun" not in said


def test_each_run_is_shown_once(hill):
    """Of the rung that it came to, with all its rows."""
    out = hill / "sweep"
    assert cli.main(words(out, "--halving", "2")) == 0
    assert cli.main(words(hill / "whole")) == 0
    assert parts(out) == [
        Part(out / "rungs/00/jobs/block000", [0, 1, 2, 3]),
        Part(out / "rungs/01/jobs/block000", [2, 3]),
        Part(out / "rungs/02/jobs/block000"),
    ]
    found, whole = rows(out), rows(hill / "whole")
    last = found.groupby(["hyper_max_reset", "seed"]).task.max()
    assert sorted(last) == [0] * 4 + [1] * 2 + [3] * 2
    assert last.groupby("hyper_max_reset").max().loc[np.float32(0.03)] == 3
    reached = whole.merge(last.rename("reached").reset_index())
    expected = reached[reached.task <= reached.reached].drop(columns="reached")
    check_same(found, expected.sort_values(["hyper_max_reset", "seed", "step"], ignore_index=True))
    [section] = studies.read([out])
    assert sorted(locate(section)) == [f"cpr (max_reset={x})" for x in (0.01, 0.02, 0.03, 0.04)]
    assert sorted(section.planned["cpr"]) == sorted([1000, 1001] * 4)
    assert len(section.frame) == len(found)
    assert section.notices == [
        f"{out}/rungs/00: 4 runs ended there by halving.",
        f"{out}/rungs/01: 2 runs ended there by halving.",
    ]
    live = Live([out])
    assert b"max_reset=0.03" in live.page
    assert cli.main(["report", str(out), "-o", str(hill / "page.html")]) == 0


def test_a_sampled_sweep_goes_on_from_its_folder(hill, capsys):
    pytest.importorskip("optuna")
    out, asked = hill / "sweep", ["--sampler", "optuna", "--trials", "3"]
    asked += ["--trials-per-batch", "2", "--lanes", "2", "--halving", "2"]
    assert cli.main(words(out, *asked, *STOP)) == 75
    capsys.readouterr()
    assert cli.main(["status", str(out)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:4] == [
        f"{out}: cpr on permuted_digits, 2 of 3 trials begun, at most 2 in a batch",
        "batch 1: 2 configurations",
        "  rung 1 of 2: 2 configurations until 2 of 4 chunks",
        f"    {out}/batches/000/rungs/00: 2 jobs, 1 to resume, 1 not begun",
    ]
    assert said[-1] == f"    {out}/batches/000/rungs/01: not begun"
    assert cli.main(["resume", str(out), "--quiet"]) == 0
    assert (out / "best.toml").exists()
    assert cli.main(["status", str(out)]) == 0
    said = capsys.readouterr().out
    assert "3 of 3 trials begun" in said and "batch 2: 1 configuration\n" in said
    assert " to resume" not in said and "not begun" not in said
    assert rows(out).groupby(["hyper_max_reset", "seed"]).ngroups == 6
    [section] = studies.read([out])
    assert len(locate(section)) == 3


def test_a_folder_in_which_nothing_has_run(hill, monkeypatch, capsys):
    out = hill / "sweep"
    monkeypatch.setattr("continual_learning.sweeps.halving.halve", lambda *_: 75)
    assert cli.main(words(out, "--halving", "2")) == 75
    with pytest.raises(StudyError, match=r"No job of .* has begun"):
        studies.read([out])
    with pytest.raises(StoreError, match="has no metrics yet"):
        load(out)
    assert cli.main(["status", str(out)]) == 0
    assert "rungs/00: not begun" in capsys.readouterr().out
    assert cli.main(["render", str(out)]) == 2
    assert "holds jobs: name the folder of one of them" in capsys.readouterr().err


def test_who_goes_on_with_it(hill, here, capsys):
    """The launcher that it was begun with, unless another is named; with the same limits."""
    out = hill / "sweep"
    here.failing = {"block000"}
    assert cli.main(words(out, "--halving", "2", "--lanes", "6", "--launcher", "here")) == 1
    setup = Setup(None, 6, {"name": "here", "options": {}})
    assert read_setup(out) == setup
    assert tomllib.loads((out / "sweep.toml").read_text())["setup"]["lanes"] == 6
    for more, said in [
        (["--until-task", "1"], "is a sweep: leave out --until-task"),
        (["--launcher", "nobody"], "Unknown launcher 'nobody'"),
        (["--parallel", "2"], "--parallel goes with --launcher"),
    ]:
        assert cli.main(["resume", str(out), *more]) == 2
        assert said in capsys.readouterr().err
    here.failing = set()
    assert cli.main(["resume", str(out), "--quiet", "--retry"]) == 0
    assert [names for _, names, *_ in here.given] == [
        ["block000", "block001"],
        ["block000"],
        ["block000"],
        ["block000"],
    ]
    assert read_setup(out) == setup
    assert launchers.from_dict(setup.launcher) == launchers.make("here", {})  # pyright: ignore


def test_an_ordinary_sweep_goes_on_from_its_folder(hill):
    """In this process, as the command would, and the best is chosen."""
    out = hill / "sweep"
    assert cli.main(words(out, "--lanes", "4", *STOP)) == 75
    assert cli.main(["resume", str(out), "--quiet"]) == 0
    assert (out / "best.toml").exists()
    assert cli.main(words(hill / "through", "--lanes", "4")) == 0
    check_same(rows(out), rows(hill / "through"))
