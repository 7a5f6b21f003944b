"""A study of seconds in two jobs, and whether a tree has the numbers of studies without jobs."""

import pandas as pd

from continual_learning.analysis import load
from continual_learning.experiments import launch, registry
from continual_learning.experiments.jobs.job import divide

FIRST, SECOND = NAMES = ["redo-seed0", "redo-seed3"]
SEEDS = [0, 3]


def experiment():
    """It has as many chunks as tasks, so that there is time to disturb it."""
    return registry.get("permuted_digits").override(
        tasks=30, examples_per_task=64, hidden=(8,), diagnostics=False, **{"redo.every": 3}
    )


def jobs():
    """Two jobs with one program, which is compiled once."""
    return divide(experiment(), ["redo"], SEEDS, 1)


def run_whole(path):
    """The same without a tree; the folders."""
    folders = [path / f"seed{seed}" for seed in SEEDS]
    for seed, folder in zip(SEEDS, folders, strict=True):
        assert launch.run(experiment(), ["redo"], [seed], folder, quiet=True) == 0
    return folders


def check_same(tree, whole):
    """The rows of a tree are those of the studies, bit for bit."""
    rows = load(tree)
    assert rows.study.unique().tolist() == [str(tree / "jobs" / name) for name in NAMES]
    pd.testing.assert_frame_equal(
        rows.drop(columns="study"), load(whole).drop(columns="study"), check_exact=True
    )
