"""A study of seconds in two jobs, and whether a tree has the numbers of studies without jobs."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd

from continual_learning.analysis import load
from continual_learning.jobs.job import divide
from continual_learning.studies import launch, registry
from continual_learning.studies.options import RunOptions

FIRST, SECOND = NAMES = ["redo-seed0", "redo-seed3"]
SEEDS = [0, 3]
ROOT = Path(__file__).parents[2]
BEGIN = """
import json, sys
from pathlib import Path
from continual_learning.jobs import launchers, manage
from continual_learning.studies.options import RunOptions
from tests.jobs.small import jobs
_, path, name, options = sys.argv
launcher = launchers.make(name, json.loads(options))
sys.exit(manage.begin(Path(path), jobs(), launcher, RunOptions(checkpoint_seconds=0.0)))
"""


def experiment():
    """It has as many chunks as tasks, so that there is time to disturb it."""
    return registry.get("permuted_digits").override(
        tasks=60, examples_per_task=64, hidden=(8,), diagnostics=False, **{"redo.every": 3}
    )


def jobs():
    """Two jobs with one program, which is compiled once."""
    return divide(experiment(), ["redo"], SEEDS, 1)


def run_whole(path):
    """The same without a tree; the folders."""
    folders = [path / f"seed{seed}" for seed in SEEDS]
    for seed, folder in zip(SEEDS, folders, strict=True):
        assert launch.run(experiment(), ["redo"], [seed], folder, RunOptions(quiet=True)) == 0
    return folders


def start(path, launcher, **options):
    """A process that begins the jobs, whose states are kept after every chunk."""
    return subprocess.Popen(
        [sys.executable, "-c", BEGIN, str(path), launcher, json.dumps(options)],
        cwd=ROOT,
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def check_same(tree, whole):
    """The rows of a tree are those of the studies, bit for bit."""
    rows = load(tree)
    assert rows.study.unique().tolist() == [str(tree / "jobs" / name) for name in NAMES]
    pd.testing.assert_frame_equal(
        rows.drop(columns="study"), load(whole).drop(columns="study"), check_exact=True
    )


def wait_for_checkpoint(folder, process):
    """Until a job has kept a state, or the process has ended."""
    while process.poll() is None and not list(folder.glob("checkpoints/*/0*")):
        time.sleep(0.01)


def wait_for_line(path, text, process):
    """Until a log has a text, which a worker says after it has kept a state; likewise."""
    while process.poll() is None and text not in path.read_text():
        time.sleep(0.01)


def worker_of(tree, name):
    """The id of the process that runs a job, and that of the one that started it."""
    found = re.match(r"process (\d+) ", tree.lock(name).read_text())
    assert found is not None
    worker = int(found[1])
    parent = re.search(r"^PPid:\s+(\d+)$", Path(f"/proc/{worker}/status").read_text(), re.MULTILINE)
    assert parent is not None
    return worker, int(parent[1])
