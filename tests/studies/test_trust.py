"""A folder or a file from somebody else is data: it imports nothing and starts no command."""

import sys

import pytest

from continual_learning import cli
from continual_learning.jobs import launchers, manage, tree
from continual_learning.jobs.job import divide
from continual_learning.schema.errors import StudyError
from continual_learning.studies import launch, registry, spec
from continual_learning.sweeps import launch as sweeping
from continual_learning.sweeps import sweep as sweeps
from continual_learning.sweeps.grid import Grid

SMALL = registry.get("permuted_digits").at_scale("smoke")
HARMLESS = [
    {"name": "local", "options": {"parallel": 2}},
    {"name": "ray", "options": {"num_gpus": 1, "address": "auto"}},
    {
        "name": "submitit",
        "options": {"parameters": {"timeout_min": 5, "partition": "gpu", "gres": "gpu:h100:1"}},
    },
]
HARMFUL = [
    ({"name": "ray", "options": {"address": "ray://elsewhere:10001"}}, "address = 'ray://else"),
    ({"name": "submitit", "options": {"parameters": {"setup": ["touch /tmp/x"]}}}, "setup = "),
    ({"name": "submitit", "options": {"parameters": {"qos": "a\ntouch x"}}}, "qos = 'a\\ntouch x'"),
    ({"name": "submitit", "options": {"parameters": {"python": "sh"}}}, "python = 'sh'"),
    ({"name": "submitit", "options": {"parameters": {"srun_args": ["--x"]}}}, "srun_args = "),
]


def jobs(path, launcher):
    tree.create(path, divide(SMALL, ["adam"], [0]), launcher)


def sweep(path, launcher):
    grid = Grid({"max_reset": (0.1, 0.2)})
    asked = sweeps.Sweep(SMALL, SMALL, "cpr", grid, [1000], halving=2)
    sweeps.write(path, asked, sweeps.Setup(launcher=launcher))


@pytest.fixture
def ran(monkeypatch):
    """What would have been run."""
    calls = []
    for kind in set(launchers.LAUNCHERS.values()):
        monkeypatch.setattr(kind, "check", lambda self: None)
    monkeypatch.setattr(manage, "_go", lambda tree, launcher, *rest: calls.append(launcher) or 0)
    monkeypatch.setattr(
        sweeping, "_go", lambda folder, sweep, setup, *rest: calls.append(setup) or 0
    )
    monkeypatch.setattr(launch, "prepare", lambda *args: None)
    return calls


@pytest.mark.parametrize("make", [jobs, sweep])
@pytest.mark.parametrize(("launcher", "told"), HARMFUL)
def test_what_a_stored_launcher_would_run_is_not_run(tmp_path, ran, capsys, make, launcher, told):
    make(tmp_path / "x", launcher)
    assert cli.main(["resume", str(tmp_path / "x")]) == 2
    said = capsys.readouterr().err
    assert told in said and "repeat the launcher with all of its options" in said
    assert ran == []
    assert cli.main(["resume", str(tmp_path / "x"), "--launcher", launcher["name"]]) == 0
    assert len(ran) == 1 and told not in repr(ran)


@pytest.mark.parametrize("make", [jobs, sweep])
@pytest.mark.parametrize("launcher", HARMLESS)
def test_who_only_counts_is_taken_from_the_folder(tmp_path, ran, make, launcher):
    make(tmp_path / "x", launcher)
    assert cli.main(["resume", str(tmp_path / "x")]) == 0
    assert len(ran) == 1


MODULE = "an_evil_module"


@pytest.fixture
def evil(tmp_path, monkeypatch):
    """A module that notes that it was imported; the path of that note."""
    note = tmp_path / "imported"
    (tmp_path / f"{MODULE}.py").write_text(f"open({str(note)!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield note
    sys.modules.pop(MODULE, None)


def test_a_module_is_imported_only_if_that_is_said(tmp_path, evil, capsys):
    pytest.importorskip("gymnasium")
    names = f"{MODULE}:Env-v0"
    file = tmp_path / "x.toml"
    spec.save(registry.get("gymnasium").override(sequence=(names,)), file)
    for words in (
        ["run", str(file), "--out", str(tmp_path / "a")],
        ["run", "gymnasium", "--task", names, "--out", str(tmp_path / "b")],
        ["sweep", str(file), "--method", "cpr", "--grid", "every=1,2", "--out", str(evil) + "-c"],
        ["bench", "methods", str(file), "--rounds", "1"],
    ):
        assert cli.main(words) == 2
        assert f"would import the module '{MODULE}'" in capsys.readouterr().err
        assert not evil.exists()
    assert cli.main(["run", str(file), "--out", str(tmp_path / "d"), "--trust-modules"]) == 2
    assert evil.exists()  # and it has no such environment
    evil.unlink()
    sys.modules.pop(MODULE)
    with pytest.raises(StudyError, match="--trust-modules"):
        launch.run(spec.load(file), ["cpr"], [0], tmp_path / "e")
    assert not evil.exists()
