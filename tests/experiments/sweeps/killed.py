"""Sweeps that are killed before each of their changes on the disk, and given again.

python -m tests.experiments.sweeps.killed FOLDER KIND FIRST STRIDE

KIND is "whole", "halving" or "divided": in the last, programs of more than two lanes run out of
memory after a chunk and become two, which go on.

Each in a child of this process, which has imported everything and made no array: a fork copies no
threads. The numbers are those of NumPy, so that nothing is compiled.
"""

import os
import sys
from pathlib import Path

import jax
import numpy as np

from continual_learning import cli
from continual_learning.agents.base import HostTrainer
from continual_learning.cli import sweep_runs
from continual_learning.experiments import build, launch, runner
from tests.experiments.test_store_kill import in_child

GRID = ["max_reset=0.01,0.02,0.03,0.04"]
FITTING = 2
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


class LargeProgram(Program):
    """Runs out of memory after a chunk, unless it has few lanes."""

    def chunk(self, state):
        if len(self.seeds) > FITTING and state["done"][0]:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory.")
        return super().chunk(state)


def trainer_of(kind):
    made = LargeProgram if kind == "divided" else Program

    def trainer(experiment, method, shared):
        def program(seeds, keys, hyper):
            return made(experiment.steps_per_task, seeds, hyper)

        return HostTrainer(program, experiment.tasks, "test_accuracy")

    return trainer


def run_method(*args, **more):
    """As the study does, with a checkpoint after every chunk."""
    return runner.run_method(*args, **more | {"checkpoint_seconds": 0.0})


def sweep(out: Path, kind: str) -> None:
    words = ["sweep", "permuted_digits", "--method", "cpr", "--grid", *GRID, "--seeds", "2"]
    words += ["--tasks", "2", "--rows-per-task", "1", "--lanes", "3", "--quiet", "--out", str(out)]
    assert cli.main([*words, *(["--halving", "2"] if kind == "halving" else [])]) == 0


def main(base: Path, kind: str, first: int, stride: int) -> None:
    """Folders `0000` (not killed) and one for each kill, all gone on with to their end."""
    os.environ["XDG_CACHE_HOME"] = str(base / "cache")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    in_child(0, lambda: sweep(base / "0000", kind))
    killed, number = True, first - stride
    while killed:
        number += stride
        folder = base / f"{number:04d}"
        killed = in_child(number, lambda folder=folder: sweep(folder, kind))
        in_child(0, lambda folder=folder: sweep(folder, kind))


if __name__ == "__main__":
    base, kind = Path(sys.argv[1]), sys.argv[2]
    build.trainer, build.data = trainer_of(kind), lambda experiment: ()
    assert sweep_runs  # imported before the first fork
    if kind == "divided":
        launch.run_method = run_method
    main(base, kind, int(sys.argv[3]), int(sys.argv[4]))
