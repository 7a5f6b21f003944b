"""A halved sweep whose jobs are processes: its numbers are those of one process."""

import numpy as np
import pytest

from continual_learning import cli
from continual_learning.analysis import load
from continual_learning.jobs import tree
from tests.jobs import conftest as processes

at_root = processes.at_root
LAUNCHERS = {
    "local": ["--parallel", "2"],
    "submitit": ["--slurm", "cluster=local"],
    "ray": ["--ray", "num_cpus=0.5"],
}


def swept(out, *more):
    start = ["sweep", "permuted_digits", "--method", "adam", "--grid", "learning_rate=0.001,0.01"]
    small = ["--tasks", "2", "--examples-per-task", "64", "--hidden", "8", "--no-diagnostics"]
    sizes = ["--seeds", "1", "--halving", "2", "--lanes", "1", "--quiet", "--out", str(out)]
    assert cli.main([*start, *small, *sizes, *more]) == 0
    frame = load(out).drop(columns="study")
    order = ["hyper_learning_rate", "seed", "step"]
    return frame.sort_values(order, ignore_index=True)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The rows of the sweep in one process."""
    return swept(tmp_path_factory.mktemp("alone") / "sweep")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name != "local")) for name in LAUNCHERS]
)
@pytest.mark.usefixtures("at_root")
def test_the_numbers_are_those_of_one_process(name, alone, tmp_path):
    out = tmp_path / "sweep"
    rows = swept(out, "--launcher", name, *LAUNCHERS[name])
    assert list(tree.read(out / "rungs" / "00").jobs) == ["block000", "block001"]
    assert tree.read(out / "rungs" / "01").log("block000").exists()  # of a process
    assert rows.groupby("hyper_learning_rate").task.max().tolist() in ([0, 1], [1, 0])
    assert len(rows) == len(alone)
    for column in rows:
        np.testing.assert_array_equal(rows[column], alone[column])
