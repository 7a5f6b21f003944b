"""Dividing a sweep into jobs, and running them one after the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from continual_learning.jobs import states, worker
from continual_learning.jobs import tree as trees
from continual_learning.jobs.job import Job
from continual_learning.studies.options import RunOptions
from continual_learning.studies.study import Study
from continual_learning.sweeps import pack
from continual_learning.sweeps.sweep import Setup

_LOCAL = {"name": "local"}
"""The launcher that may run the jobs of a sweep without a launcher."""


class Divided(NamedTuple):
    """Programs as jobs that fit into memory.

    Attributes:
      jobs: all jobs.
      lines: sentences that say why there are so many.
    """

    jobs: list[Job]
    lines: list[str]


def divide(programs: list[Study], setup: Setup) -> Divided:
    """Divide programs into jobs that fit into memory, without writing anything.

    Args:
      programs: the studies to divide.
      setup: the limits of a job.
    """
    jobs, lines = [], []
    for study in programs:
        blocks, fit = pack.blocks(study, setup.memory, setup.lanes)
        numbers = range(len(jobs), len(jobs) + len(blocks))
        jobs += [Job(f"block{n:03}", part) for n, part in zip(numbers, blocks, strict=True)]
        lines.append(_told(study, blocks, fit))
    return Divided(jobs, lines)


def begin(folder: Path, divided: Divided, setup: Setup, chunks: int | None = None) -> None:
    """Write jobs into a new folder, or into the folder of a sweep.

    Args:
      folder: the folder of the jobs.
      divided: the jobs.
      setup: the setup, with their launcher.
      chunks: the number of chunks of their runs, if not all.
    """
    trees.create(folder, divided.jobs, setup.launcher or _LOCAL, chunks)
    for line in divided.lines:
        trees.note(folder, line)


def run(folder: Path, options: Callable[[], RunOptions]) -> int:
    """Run the jobs of a folder that are not finished, one after the other; return the exit code.

    Args:
      folder: the folder of the jobs.
      options: returns the options of the next job, within the time that is left.
    """
    while True:
        tree = trees.read(folder)
        found = states.states(tree)
        name = next((name for name, each in found.items() if each.word != "finished"), None)
        if name is None:
            return 0
        code = worker.attempt(tree, name, options())
        if code:
            return code


def _told(study: Study, blocks: list[Study], fit: pack.Fit | None) -> str:
    [method] = study.methods
    several = f"{len(blocks)} blocks of at most {max(block.lanes for block in blocks)}"
    how = several if len(blocks) > 1 else "one program"
    lanes = f"{study.lanes} lanes" if study.lanes > 1 else "one lane"
    line = f"{study.experiment.name}, {method}: {lanes} in {how}"
    if fit is None:
        return f"{line}."
    need, have = pack.size_of(fit.needed), pack.size_of(fit.limit)
    return f"{line}: {need} of the {have} that a device may give."
