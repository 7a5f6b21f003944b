"""No folder that somebody else wrote is a traceback, a wait, or silently something else."""

import tomllib

import pytest
import tomli_w

from continual_learning import cli
from continual_learning.jobs import manage, tree
from continual_learning.jobs.job import divide
from continual_learning.studies import launch, registry
from continual_learning.studies.store.store import Store
from continual_learning.studies.study import Study
from continual_learning.sweeps import launch as sweeping
from continual_learning.sweeps import sweep as sweeps
from continual_learning.sweeps.grid import Grid
from tests.hostile import cases

SPEC = registry.get("permuted_digits").at_scale("smoke")
LAUNCHER = {
    "name": "submitit",
    "options": {"cluster": "slurm", "parameters": {"timeout_min": 5, "partition": "gpu"}},
}


def study(path):
    hyper = {"max_reset": [0.1, 0.2]}
    Store.create(path, Study(SPEC, ["cpr"], [0, 1], hyper).to_dict(), {}).close()
    return path / "study.toml"


def jobs(path):
    tree.create(path, divide(SPEC, ["adam"], [0, 1], 1), LAUNCHER, 3)
    return path / "jobs.toml"


def sweep(path):
    grid = Grid({"max_reset": (0.1, 0.2), "clip": (None, 0.5)})
    asked = sweeps.Sweep(SPEC, SPEC, "cpr", grid, [1000, 1001], "test_accuracy", 2, 4, 2)
    sweeps.write(path, asked, sweeps.Setup(10**9, 4, LAUNCHER))
    return path / "sweep.toml"


@pytest.fixture
def still(monkeypatch, tmp_path):
    """Nothing runs: what would is 0. Reports are written to where nobody is disturbed."""
    monkeypatch.chdir(tmp_path)
    for module, name in [(launch, "_go"), (launch, "prepare"), (sweeping, "_go"), (manage, "_go")]:
        monkeypatch.setattr(module, name, lambda *args, **more: 0)
    monkeypatch.setattr(manage, "_check", lambda *args: None)


def changes(content):
    """Every value at every place, but for those of the experiments, which are tried elsewhere."""
    for where, value in cases.tables(content):
        inside = [name for name in where if name in ("experiment", "reported")]
        if not inside or where[-1] in ("experiment", "reported", "kind", "methods", "name"):
            yield where, value


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("make", [study, jobs, sweep])
@pytest.mark.parametrize("stride", [41, pytest.param(1, marks=pytest.mark.slow)])
def test_every_value_at_every_place(tmp_path, capsys, make, stride):
    file = make(tmp_path / "x")
    content, refused, kept = tomllib.loads(file.read_text()), 0, 0
    for where, value in list(changes(content))[::stride]:
        if value is None:
            new = cases.changed(content, where, 0)
            place = cases.at(new, where[:-1])
            del place[where[-1]]  # pyright: ignore
        else:
            new = cases.changed(content, where, value)
        file.write_text(tomli_w.dumps(new))
        codes = set()
        for command in ("status", "resume", "report"):
            with cases.in_time((where, value)):
                codes.add(cli.main([command, str(tmp_path / "x")]))
            said = capsys.readouterr()
            assert "Traceback" not in said.err
            assert "\x1b" not in said.out + said.err, (where, value)
        assert codes <= {0, 1, 2}
        refused, kept = refused + (0 not in codes), kept + (codes == {0})
    assert refused + 1 > kept


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("make", [study, jobs, sweep])
@pytest.mark.parametrize("name", cases.DOCUMENTS)
def test_a_document_that_is_no_table_of_ours(tmp_path, capsys, make, name):
    file = make(tmp_path / "x")
    file.write_text(cases.DOCUMENTS[name])
    for command in ("status", "resume", "report"):
        with cases.in_time(name):
            assert cli.main([command, str(tmp_path / "x")]) == 2
        assert capsys.readouterr().err.startswith("continual: ")
