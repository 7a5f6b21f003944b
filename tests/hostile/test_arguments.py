"""No argument of a command is a traceback, a wait, or silently something else."""

import math
import re

import pytest

from continual_learning import cli
from continual_learning.jobs import launchers, manage
from continual_learning.schema import bounds
from continual_learning.studies import bench, launch
from continual_learning.sweeps import launch as sweeps
from continual_learning.video import render
from tests.hostile import cases

COMMANDS = {
    "digits": ["run", "permuted_digits", "--out", "out"],
    "ant": ["run", "slippery_ant", "--out", "out"],
    "games": ["run", "continual_minatar", "--out", "out"],
    "host": ["run", "gymnasium", "--out", "out"],
    "sweep": ["sweep", "permuted_digits", "--method", "cpr", "--grid", "every=1,2", "--out", "out"],
    "show": ["show", "permuted_digits"],
    "resume": ["resume", "folder"],
    "render": ["render", "folder"],
    "report": ["report", "folder"],
    "select": ["select", "folder"],
    "bench": ["bench", "methods", "permuted_digits"],
    "table": ["table", "ant_iqr", "folder"],
    "figure": ["figure", "ant_humanoid_main", "folder"],
    "reproduce": ["reproduce", "ant_iqr"],
}
NAMED_FIRST = [*sorted({words[0] for words in COMMANDS.values()}), "status", "x", ""]
WITH = {
    "--parallel": ["--launcher", "local"],
    "--ray": ["--launcher", "ray"],
    "--slurm": ["--launcher", "submitit"],
    "--seeds-per-job": ["--launcher", "local"],
    "--trials": ["--sampler", "optuna"],
    "--port": ["--watch"],
}
NAMED = {
    "--grid": ["", "every="],
    "--ray": ["", "num_cpus=", "address=", "x="],
    "--set": ["", "every=", "cpr.every=", "tasks="],
    "--slurm": ["", "timeout_min=", "setup=", "x="],
}


@pytest.fixture
def accepted(monkeypatch, tmp_path):
    """Takes the place of all that would take long; what it was asked."""
    calls = []

    def noted(*args, **more):
        calls.append((args, more))
        return 0

    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for module, name in [
        (launch, "run"),
        (launch, "resume"),
        (launch, "prepare"),
        (sweeps, "run"),
        (bench, "measure"),
        (render, "render"),
        (manage, "begin"),
        (manage, "resume"),
    ]:
        monkeypatch.setattr(module, name, noted)
    for kind in set(launchers.LAUNCHERS.values()):
        monkeypatch.setattr(kind, "check", lambda self: None)
    return calls


def numbers(value):
    """All numbers in what a command was asked."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple | range):
        for each in value:
            yield from numbers(each)
    elif hasattr(value, "__dataclass_fields__"):
        yield from numbers(vars(value))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def options(capsys, words):
    """The names of all options of a command."""
    with pytest.raises(SystemExit):
        cli.main([*words[:2], "--help"])
    found = set(re.findall(r"(?<!\w)--[a-z][a-z0-9-]*", capsys.readouterr().out))
    return sorted(found - {"--help", "--version", "--watch"})


def tried(capsys, words, accepted):
    accepted.clear()
    with cases.in_time(words):
        code = cli.main(words)
    said = capsys.readouterr()
    assert "Traceback" not in said.err, words
    if code == cli.FAILED:
        assert said.err.startswith("continual: ") and len(said.err) < 3000, words
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", said.err), words
    else:
        assert code in (0, cli.RUN_FAILED), (words, code)
        for number in numbers(accepted):
            most = bounds.FLOATS if isinstance(number, float) else 2**63
            assert abs(number) <= most or math.isinf(number), words
    return code


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("stride", [31, pytest.param(1, marks=pytest.mark.slow)])
def test_every_text_for_every_option(accepted, capsys, name, stride):
    words, count = COMMANDS[name], 0
    given = [
        [*words, *WITH.get(option, []), option, f"{before}{text}"]
        for option in options(capsys, words)
        for before in NAMED.get(option, [""])
        for text in cases.TEXTS
    ]
    for each in given[::stride]:
        count += 1
        tried(capsys, each, accepted)
    assert count > 1


@pytest.mark.parametrize("command", NAMED_FIRST)
def test_every_text_for_what_is_named(accepted, capsys, command):
    for text in cases.TEXTS:
        more = ["--out", "out"] if command in ("run", "sweep") else []
        tried(capsys, [command, text, *more], accepted)
        tried(capsys, [command, text, text, *more], accepted)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--seeds", "1000000000000"], "at most 100,000 seeds, each below 2\\^32"),
        (["--seeds", "0:1000000000000"], "at most 100,000 seeds"),
        (["--seeds", "4294967296"], "at most 100,000 seeds"),
        (["--seeds", "7,4294967296"], "each below 2\\^32"),
        (["--seeds", "9" * 5000], "different seeds"),
        (["--tasks", "9" * 5000], "tasks must be a whole number above 0"),
        (["--time-limit", "9" * 400], "at most 100 years"),
        (["--hidden", "1048576,1048576"], "more than 268,435,456 weights between them"),
        (["--until-task", "9" * 5000], "--until-task must be a whole number"),
        (["--set", "adam.learning_rate=1e39"], "learning_rate must be a number above 0"),
        (["--set", "cpr.every=" + "9" * 400], "every of cpr must be a number"),
        (["--launcher", "ray", "--ray", "num_cpus=x"], "num_cpus must be a number"),
        (["--launcher", "ray", "--ray", "address=5"], "address must be text"),
        (["--launcher", "submitit", "--slurm", "timeout_min=x"], "must be a whole number above 0"),
        (["--launcher", "local", "--parallel", "9" * 30], "must be a whole number, at least 1"),
        (["--launcher", "ray", "--ray", "gpus=1"], "Unknown option of the launcher ray 'gpus'"),
    ],
)
def test_absurdities(accepted, capsys, more, told):
    with cases.in_time(more):
        assert cli.main(["run", "permuted_digits", "--out", "out", *more]) == 2
    assert re.search(told, capsys.readouterr().err)
    assert accepted == []


@pytest.mark.parametrize("seeds", ["4294967295", "4294967290:4294967296"])
def test_the_largest_seeds(accepted, capsys, seeds):
    if ":" not in seeds:
        seeds = f"7,{seeds}"
    assert cli.main(["run", "permuted_digits", "--out", "out", "--seeds", seeds]) == 0
    [(args, _)] = accepted
    assert args[2][-1] == bounds.SEEDS - 1


def test_a_state_that_no_machine_holds(tmp_path, capsys):
    words = ["run", "continual_minatar", "--methods", "adam", "--capacity", "2000000000"]
    with cases.in_time(words):
        assert cli.main([*words, "--quiet", "--out", str(tmp_path / "out")]) == 2
    assert "GB, more than the" in capsys.readouterr().err


def test_memory_that_is_too_little_in_the_middle_of_a_run(monkeypatch, tmp_path, capsys):
    def full(*_, **__):
        raise MemoryError("Unable to allocate 8.00 TiB")

    monkeypatch.setattr(launch, "run", full)
    assert cli.main(["run", "permuted_digits", "--out", str(tmp_path / "out")]) != 0
    assert "too little memory (Unable to allocate 8.00 TiB): use" in capsys.readouterr().err
