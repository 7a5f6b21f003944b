"""Sweeps that are killed before each of their changes on the disk, and given again.

python -m tests.sweeps.killed FOLDER HALVING FIRST STRIDE

Each in a child of this process, which has imported everything and made no array: a fork copies no
threads. The numbers are those of NumPy, so that nothing is compiled.
"""

import os
import sys
from pathlib import Path

import numpy as np

from continual_learning import cli
from continual_learning.agents.common.trainer import HostTrainer
from continual_learning.studies import build
from continual_learning.sweeps import launch
from tests.studies.store.test_store_kill import in_child

GRID = ["max_reset=0.01,0.02,0.03,0.04"]
STATE = {"sum": np.float64, "done": np.int64, "chunks": np.int64}


class Program:
    """Adds up what its lanes' numbers and seeds give, a task a chunk.

    With other lanes beside it, a lane is rounded differently, as by XLA.
    """

    def __init__(self, steps, seeds, hyper):
        self.steps, self.seeds = steps, np.asarray(seeds)
        self.rate = np.asarray(hyper["max_reset"], np.float64)

    @property
    def like(self):
        return {name: np.zeros(len(self.seeds), dtype) for name, dtype in STATE.items()}

    @property
    def columns(self):
        return ["step", "task", "test_accuracy"]

    def compile(self, fresh=True, quick=False):
        pass

    def init(self):
        return self.like

    def place(self, state):
        return state

    def chunk(self, state):
        done = state["done"] + 1
        total = state["sum"] + np.sin(done * self.rate * 100 + self.seeds)
        total += 1e-12 * len(self.seeds)
        columns = {"step": done * self.steps, "task": done - 1, "test_accuracy": total}
        rows = {name: values[:, None] for name, values in columns.items()}
        return {**state, "sum": total, "done": done}, rows

    def memory(self):
        return 0

    def close(self):
        pass


def trainer(experiment, method, shared):
    def program(seeds, keys, hyper):
        return Program(experiment.steps_per_task, seeds, hyper)

    return HostTrainer(program, experiment.tasks, "test_accuracy")


def sweep(out: Path, halving: bool) -> None:
    words = ["sweep", "permuted_digits", "--method", "cpr", "--grid", *GRID, "--seeds", "2"]
    words += ["--tasks", "2", "--rows-per-task", "1", "--lanes", "3", "--quiet", "--out", str(out)]
    assert cli.main([*words, *(["--halving", "2"] if halving else [])]) == 0


def main(base: Path, halving: bool, first: int, stride: int) -> None:
    """Folders `0000` (not killed) and one for each kill, all gone on with to their end."""
    os.environ["XDG_CACHE_HOME"] = str(base / "cache")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    in_child(0, lambda: sweep(base / "0000", halving))
    killed, number = True, first - stride
    while killed:
        number += stride
        folder = base / f"{number:04d}"
        killed = in_child(number, lambda folder=folder: sweep(folder, halving))
        in_child(0, lambda folder=folder: sweep(folder, halving))


if __name__ == "__main__":
    build.trainer, build.data = trainer, lambda experiment: ()
    assert launch  # imported before the first fork
    main(Path(sys.argv[1]), sys.argv[2] == "halving", int(sys.argv[3]), int(sys.argv[4]))
