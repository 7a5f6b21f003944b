import re

import pytest

from continual_learning import cli
from continual_learning.cli import options
from continual_learning.schema.errors import StudyError
from continual_learning.studies import registry


@pytest.mark.parametrize(
    ("text", "found"),
    [("5", [0, 1, 2, 3, 4]), ("3,7", [3, 7]), ("10:13", [10, 11, 12]), ("0:2,7", [0, 1, 7])],
)
def test_seeds(text, found):
    assert options.seeds(text) == found


@pytest.mark.parametrize("text", ["0", "-1", "a", "3,3", "5:5", "7:5", "", "1,", "1.5", "0:3,2"])
def test_bad_seeds(text):
    with pytest.raises(StudyError, match=r"a number \(5\), different seeds"):
        options.seeds(text)


@pytest.mark.parametrize(
    ("text", "found"), [("90", 90), ("90s", 90), ("8m", 480), ("1.5h", 5400), ("0.5m", 30)]
)
def test_time_limits(text, found):
    assert options.seconds(text) == found


@pytest.mark.parametrize("text", ["0", "0m", "-3", "3d", "m", "", "1e3", "nan"])
def test_bad_time_limits(text):
    with pytest.raises(StudyError, match=r"90, 90s, 8m or 1\.5h"):
        options.seconds(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("cpr.max_reset=0.02", 0.02),
        ("cpr.every = 7", 7),
        ("cpr.reset_bias=true", True),
        ("cpr.shape=exp", "exp"),
        ("cpr.shape='exp'", "exp"),
        ("cpr.sharpness=inf", float("inf")),
        ("cpr.every=none", None),
        ("cpr.clip=none", None),
        ("cpr.learning_rate=1", 1.0),
        ("hidden=3,4", (3, 4)),
        ("diagnostics=false", False),
        ("seeds=3", 3),
    ],
)
def test_assignments(text, value):
    name, found = options.assignment(registry.get("permuted_mnist"), text)
    assert name == text.split("=")[0].strip()
    assert found == value
    assert type(found) is type(value)


def test_names_of_options_are_reserved(capsys, monkeypatch):
    """A field of a user's may have the name of an option that any of these commands has."""
    monkeypatch.setenv("COLUMNS", "500")  # no flag is cut
    own = {f"--{name.replace('_', '-')}" for name in options.RESERVED}
    for command in ("run", "show", "sweep"):
        with pytest.raises(SystemExit):
            cli.main([command, "--help"])
        assert {*re.findall(r"(?<![\w-])--[a-z][a-z-]*", capsys.readouterr().out)} <= own
