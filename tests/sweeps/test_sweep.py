"""Sweeps from the command line, on a hill whose top is known."""

import dataclasses

import jax
import numpy as np
import pytest

from continual_learning import cli
from continual_learning.analysis import load
from continual_learning.jobs import launchers, manage, tree
from continual_learning.report import studies
from continual_learning.report.series import locate
from continual_learning.schema.errors import StudyError
from continual_learning.studies import build, registry, spec
from continual_learning.studies.runner import Lanes, program_of
from continual_learning.studies.store.files import StoreError
from continual_learning.studies.store.store import Store
from continual_learning.sweeps import blocks, pack
from continual_learning.sweeps.grid import Grid
from continual_learning.sweeps.plan import programs
from continual_learning.sweeps.sweep import Sweep, read
from tests.sweeps import hill as problem

hill = problem.hill
GRID = ["max_reset=0.01:0.05:0.01", "every=100,200,400"]


def words(out, *more, grid=GRID, seeds="2"):
    start = ["sweep", "permuted_digits", "--method", "cpr", "--grid", *grid, "--seeds", seeds]
    return [*start, "--tasks", "3", "--rows-per-task", "1", "--quiet", "--out", str(out), *more]


def test_the_top_is_found_and_run(hill, capsys):
    assert cli.main(words(hill / "sweep")) == 0
    out = capsys.readouterr().out
    assert "30 lanes in one program" in out
    first = next(line for line in out.splitlines() if line.startswith(" 1 "))
    assert first.split()[1:3] == ["0.03", "200"]
    best = registry.get(hill / "sweep" / "best.toml")
    assert best.methods["cpr"].options == {"max_reset": 0.03, "every": 200}
    own = registry.get("permuted_digits").override(tasks=3)
    assert best == own.override(**{"cpr.max_reset": 0.03, "cpr.every": 200})
    # Not what the preset has, so that the file makes a difference to those who run it.
    assert own.methods["cpr"].options["max_reset"] != 0.03
    best = ["run", str(hill / "sweep" / "best.toml"), "--methods", "cpr", "--seeds", "2", "--quiet"]
    assert cli.main([*best, "--out", str(hill / "reported")]) == 0
    rows = load(hill / "reported")
    assert sorted(rows.seed.unique()) == [0, 1]
    np.testing.assert_allclose(rows[rows.task == 2].test_accuracy.max(), 6.0, atol=0.02)


def test_what_looks_at_jobs_looks_at_a_sweep(hill, capsys):
    assert cli.main(words(hill / "sweep", "--lanes", "4", grid=["max_reset=0.01,0.03,0.9"])) == 0
    assert cli.main(["status", str(hill / "sweep")]) == 0
    assert "2 jobs, 2 finished" in capsys.readouterr().out
    assert launchers.from_dict(tree.read(hill / "sweep").launcher) == launchers.make("local", {})
    [section] = studies.read([hill / "sweep"])
    labels = [f"cpr (max_reset={value})" for value in (0.01, 0.03, 0.9)]
    assert sorted(locate(section)) == labels
    assert section.planned == {"cpr": [1000, 1001] * 3}


def test_jobs_that_others_run(hill, monkeypatch, capsys):
    given = []

    def resume(folder, launcher, running, *, retry):
        given.append((folder, launcher, running.time_limit, retry))
        return 0

    monkeypatch.setattr(manage, "resume", resume)
    more = ["--lanes", "15", "--launcher", "local", "--parallel", "2", "--time-limit", "9"]
    assert cli.main(words(hill / "sweep", *more)) == 0
    [(folder, launcher, limit, retry)] = given
    assert (folder, limit, retry) == (hill / "sweep", 9.0, False)
    named = tree.read(folder).launcher
    assert launchers.from_dict(named) == launcher and launcher.parallel == 2  # pyright: ignore
    assert f"continual select {folder}" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["accuracy", "seed", "step", "task", "hyper_max_reset"])
@pytest.mark.parametrize("more", [[], ["--halving", "3"]])
def test_a_metric_that_will_not_be_there_is_told_before_anything_runs(hill, capsys, name, more):
    assert cli.main([*words(hill / "sweep", "--metric", name), *more]) == 2
    assert f"Unknown metric {name!r}." in capsys.readouterr().err
    assert not (hill / "sweep").exists()


def test_names_of_rows_are_known_before_they_are_there():
    small = registry.get("permuted_digits").override(tasks=1, examples_per_task=64, rows_per_task=1)
    trainer = build.trainer(small, "cpr", build.data(small))
    program = program_of(trainer, Lanes([0]))
    names = program.columns
    assert set(names) == set(program.chunk(program.init())[1])


def test_what_a_split_gives_is_what_one_program_gives(hill, capsys):
    assert cli.main(words(hill / "one")) == 0
    assert cli.main(words(hill / "many", "--lanes", "8")) == 0
    assert "30 lanes in 4 blocks of at most 8" in capsys.readouterr().out
    whole, parts = (
        load(tree.studies(hill / name)).drop(columns="study") for name in ("one", "many")
    )
    order = ["hyper_max_reset", "hyper_every", "seed", "step"]
    whole, parts = (x.sort_values(order, ignore_index=True) for x in (whole, parts))
    assert len(whole) == 30 * 3 * 2
    for name in whole:
        np.testing.assert_array_equal(whole[name], parts[name])
    assert (hill / "one" / "best.toml").read_text() == (hill / "many" / "best.toml").read_text()


def test_memory_that_is_too_small_for_all_splits(hill, capsys):
    configurations = Grid({"max_reset": (0.01, 0.03)}).configurations()
    [study] = programs(problem.SPEC, "cpr", configurations, [1000, 1001])
    _, fit = pack.blocks(study, limit=10**9)
    assert fit is not None
    between = str((fit.measured[2] + fit.measured[4]) // 2)
    assert cli.main(words(hill / "sweep", "--memory", between, grid=["max_reset=0.01,0.03"])) == 0
    assert "4 lanes in 2 blocks of at most 2" in capsys.readouterr().out


def test_a_stopped_sweep_goes_on_with_the_same_command(hill, capsys):
    assert cli.main(words(hill / "sweep", "--lanes", "20", "--time-limit", "0.001s")) == 75
    assert "give the same command again" in capsys.readouterr().out
    assert not (hill / "sweep" / "best.toml").exists()
    assert cli.main(["select", str(hill / "sweep")]) == 2  # no run is at its end
    assert cli.main(words(hill / "sweep", "--lanes", "3")) == 0  # the blocks stay what they are
    assert len(tree.read(hill / "sweep").jobs) == 2
    assert (hill / "sweep" / "best.toml").exists()
    assert cli.main(words(hill / "sweep", grid=["max_reset=0.01,0.02"])) == 2
    assert "holds another" in capsys.readouterr().err
    assert cli.main(["select", str(hill / "sweep"), "--metric", "accuracy"]) == 2
    assert "Unknown metric 'accuracy'. Did you mean 'test_accuracy'" in capsys.readouterr().err


def test_a_program_that_runs_out_of_memory_says_so_and_goes_on(hill, monkeypatch, capsys):
    save = Store.save

    def greedy(self, method, chunk, state, lanes, ring):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")

    monkeypatch.setattr(Store, "save", greedy)
    assert cli.main(words(hill / "sweep")) == cli.MACHINE
    said = capsys.readouterr().err
    assert "ran out of memory with 30 lanes in one program" in said and "--lanes" in said
    monkeypatch.setattr(Store, "save", save)
    assert cli.main(words(hill / "sweep")) == 0
    assert registry.get(hill / "sweep" / "best.toml").methods["cpr"].options["every"] == 200


def test_a_single_lane_that_does_not_fit_and_other_errors(hill, monkeypatch, capsys):
    def broken(error):
        def trainer(*args):
            raise jax.errors.JaxRuntimeError(error)

        return trainer

    one = {"grid": ["max_reset=0.01"], "seeds": "1"}
    more = ("--lanes", "1")
    monkeypatch.setattr(build, "trainer", broken("RESOURCE_EXHAUSTED: …"))
    assert cli.main(words(hill / "a", *more, **one)) == cli.MACHINE
    assert "ran out of memory with a single lane" in capsys.readouterr().err
    monkeypatch.setattr(build, "trainer", broken("INTERNAL: …"))
    with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL"):
        cli.main(words(hill / "b", *more, **one))


def test_what_cannot_be_asked(hill, capsys):
    for more, error in [
        (["--seeds", "0:3"], "Seeds 0, 1, 2 are among those that permuted_digits reports"),
        (["--until-task", "1"], "--until-task is for studies"),
        (["--memory", "big"], "--memory must be a size such as 40GB"),
        (["--lanes", "0"], "--lanes must be a whole number, at least 1"),
        (["--grid", "max_rest=1"], "Did you mean 'max_reset'"),
        (["--method", "crp"], "Unknown method of permuted_digits 'crp'"),
    ]:
        assert cli.main([*words(hill / "sweep"), *more]) == 2
        assert error in capsys.readouterr().err, more
    (hill / "full").mkdir()
    (hill / "full" / "file").touch()
    assert cli.main(words(hill / "full")) == 2
    assert "is not empty" in capsys.readouterr().err
    assert cli.main(["select", str(hill / "full")]) == 2
    assert "it has no sweep.toml" in capsys.readouterr().err
    assert cli.main(["select", str(hill / "none")]) == 2
    with pytest.raises(StoreError, match="damaged"):
        (hill / "full" / "sweep.toml").write_text("sweep = 3")
        read(hill / "full")


def test_the_paper_s_grid_and_task(monkeypatch, tmp_path, capsys):
    """Without --grid; MT1 is tuned on a task of its own, and reported on any."""
    asked = {}
    divide = blocks.divide

    def noting(programs, setup):
        asked.update(programs=programs)
        return divide(programs, setup)

    monkeypatch.setattr(blocks, "divide", noting)
    monkeypatch.setattr(blocks, "run", lambda out, options: 75)
    start = ["sweep", "mt1", "--method", "cpr", "--scale", "smoke", "--memory", "2.5GB"]
    assert cli.main([*start, "--out", str(tmp_path / "a")]) == 75
    [study] = asked["programs"]
    assert study.lanes == 24 * 5 and set(study.seeds) == {1000, 1001, 1002, 1003, 1004}
    assert study.experiment.value("sequence") == ("peg-insert-side",)
    sweep = read(tmp_path / "a")
    assert sweep.experiment == study.experiment
    assert sweep.reported == registry.get("mt1")  # at the scale of the paper, on its own task
    assert cli.main([*start, "--task", "push", "--out", str(tmp_path / "b")]) == 75
    assert asked["programs"][0].experiment.value("sequence") == ("push",)
    assert cli.main(["sweep", "permuted_digits", "--method", "cpr", "--out", str(tmp_path)]) == 2
    assert "The paper has no grid of cpr on permuted_digits" in capsys.readouterr().err


def test_a_sweep_as_data():
    small = problem.SPEC.override(tasks=2)
    grid = Grid({"max_reset": (0.1, 0.2), "clip": (None, 0.5)})
    sweep = Sweep(small, problem.SPEC, "cpr", grid, [1000, 7], "test_accuracy")
    assert Sweep.from_dict(sweep.to_dict()) == sweep
    assert spec.from_dict(sweep.to_dict()["reported"]) == problem.SPEC
    with pytest.raises(StudyError, match="all different"):
        Sweep(small, small, "cpr", grid, [5, 5])
    only = {"cpr": small.methods["cpr"]}
    laned = dataclasses.replace(small, methods=only, lanes={"max_reset": (0.1, 0.2)})
    with pytest.raises(StudyError, match=r"has lanes of its own \(max_reset\)"):
        Sweep(laned, small, "cpr", grid, [1000])
