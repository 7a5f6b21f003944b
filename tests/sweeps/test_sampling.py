"""Points of a grid that Optuna names, on the hill."""

import pytest

from continual_learning import cli, extras
from continual_learning.jobs import tree
from continual_learning.studies import registry
from continual_learning.sweeps.grid import Grid
from continual_learning.sweeps.lanes import point
from continual_learning.sweeps.sampling import Suggestions
from continual_learning.sweeps.sweep import last_jobs
from tests.sweeps import hill as problem

hill = problem.hill
GRID = ["max_reset=0.005:0.1:0.005", "every=100:1000:100"]


@pytest.fixture
def optuna():
    return pytest.importorskip("optuna")


def words(out, *more):
    start = ["sweep", "permuted_digits", "--method", "cpr", "--grid", *GRID, "--seeds", "1"]
    sizes = ["--tasks", "4", "--rows-per-task", "1", "--quiet", "--lanes", "100"]
    return [*start, *sizes, "--sampler", "optuna", "--out", str(out), *more]


def test_what_was_asked_is_not_asked_again(optuna, tmp_path):
    grid = Grid({"a": (1, 2, 3), "b": ("x", "y", None)})
    first = Suggestions(tmp_path, grid)
    asked = first.ask(4)
    assert len({point(each) for each in asked}) == 4
    assert all(point(each) in map(point, grid.configurations()) for each in asked)
    waiting = first.waiting()
    assert list(waiting) == [point(each) for each in asked]
    first.tell(waiting[point(asked[0])], 0.5)
    first.tell(waiting[point(asked[1])], None)
    first.tell(waiting[point(asked[2])], float("nan"))
    assert first.tried() == 3
    again = Suggestions(tmp_path, grid)  # from the file
    assert list(again.waiting()) == [point(asked[3])] and again.tried() == 3
    more = again.ask(100)  # all that is left, or what Optuna names of it
    assert not {point(each) for each in more} & {point(each) for each in asked}
    assert 1 <= len({point(each) for each in more}) == len(more) <= 5


def test_it_learns_where_the_hill_is(optuna, hill, capsys):
    """40 of 200 points, the last ten nearer to the top than the first."""
    more = ["--trials", "40", "--trials-per-batch", "10"]
    assert cli.main(words(hill / "sweep", *more)) == 0
    chosen = registry.get(hill / "sweep" / "best.toml").methods["cpr"].options
    assert 0.02 <= chosen["max_reset"] <= 0.04 and chosen["every"] <= 500
    batches = sorted((hill / "sweep" / "batches").iterdir())
    assert [path.name for path in batches] == ["000", "001", "002", "003"]
    [early, late] = [tree.read(batches[i]).jobs["block000"].study for i in (0, 3)]

    def distance(study):
        return sum(abs(x - 0.03) for x in study.hyper["max_reset"]) / study.lanes

    assert early.lanes == late.lanes == 10 and distance(late) < distance(early)
    everything = hill / "sweep" / "optuna.log"
    size = everything.stat().st_size
    assert cli.main(words(hill / "sweep", *more)) == 0  # nothing is left to do
    assert len(sorted((hill / "sweep" / "batches").iterdir())) == 4
    assert everything.stat().st_size <= size + 1000


def test_batches_are_halved_and_go_on(optuna, hill, capsys):
    more = ["--trials", "9", "--trials-per-batch", "5", "--halving", "2"]
    codes = []
    while not codes or codes[-1] == 75:
        codes.append(cli.main(words(hill / "sweep", *more, "--time-limit", "0.001s")))
        assert len(codes) < 30
    assert codes[-1] == 0 and len(codes) > 2
    places = last_jobs(hill / "sweep")
    assert [str(path.relative_to(hill / "sweep")) for path in places] == [
        "batches/000/rungs/02",
        "batches/001/rungs/02",
    ]
    told = Suggestions(hill / "sweep", Grid({"max_reset": (1,)}))._study.trials
    states = [trial.state.name for trial in told if trial.state.name != "FAIL"]
    assert sorted(states) == ["COMPLETE"] * 2 + ["PRUNED"] * 7
    assert (hill / "sweep" / "best.toml").exists()


def test_what_cannot_be_asked(hill, monkeypatch, capsys):
    monkeypatch.setattr(extras, "require", lambda *names: None)
    base = words(hill / "sweep")
    without = [word for word in base if word not in ("--sampler", "optuna")]
    for asked, error in [
        (base, "--sampler needs --trials"),
        ([*base, "--trials", "500"], "at most the 200 configurations of the grid"),
        ([*base, "--trials", "0"], "--trials must be a whole number, at least 1"),
        ([*base, "--sampler", "random", "--trials", "5"], "Unknown sampler 'random'"),
        ([*without, "--trials", "5"], "--trials and --trials-per-batch go with --sampler"),
    ]:
        assert cli.main(asked) == 2, error
        assert error in capsys.readouterr().err
    assert not (hill / "sweep").exists()


def test_optuna_is_an_extra(hill, monkeypatch, capsys):
    installed = extras._installed
    monkeypatch.setattr(extras, "_installed", lambda name: name != "optuna" and installed(name))
    assert cli.main(words(hill / "sweep", "--trials", "5")) == 2
    assert "plasticax[optuna]" in capsys.readouterr().err
