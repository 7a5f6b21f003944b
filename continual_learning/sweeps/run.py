"""Divides a sweep into jobs, and runs them in turn."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

from continual_learning.jobs import states, worker
from continual_learning.jobs import tree as trees
from continual_learning.jobs.job import Job
from continual_learning.studies.study import Study
from continual_learning.sweeps import pack
from continual_learning.sweeps.sweep import Setup

_LOCAL = {"name": "local"}
"""Who may run jobs of which nobody else was named."""


class Divided(NamedTuple):
    """Programs as jobs that fit into memory.

    Attributes:
      jobs: all of them.
      lines: why there are so many.
    """

    jobs: list[Job]
    lines: list[str]


def divide(programs: list[Study], setup: Setup) -> Divided:
    """Divides programs into jobs that fit into memory; nothing is written.

    Args:
      programs: what they run.
      setup: how much may be in a job.
    """
    jobs, lines = [], []
    for study in programs:
        blocks, fit = pack.blocks(study, setup.memory, setup.lanes)
        numbers = range(len(jobs), len(jobs) + len(blocks))
        jobs += [Job(f"block{n:03}", part) for n, part in zip(numbers, blocks, strict=True)]
        lines.append(_told(study, blocks, fit))
    return Divided(jobs, lines)


def begin(folder: Path, divided: Divided, setup: Setup, chunks: int | None = None) -> None:
    """Writes jobs into a new folder, or into that of a sweep.

    Args:
      folder: of the jobs.
      divided: the jobs.
      setup: who runs them.
      chunks: how many make up their runs, if not all.
    """
    trees.create(folder, divided.jobs, setup.launcher or _LOCAL, chunks)
    for line in divided.lines:
        trees.note(folder, line)


def run(folder: Path, *, deadline: float | None = None, **running: Any) -> int:
    """Runs the jobs of a folder that are not finished, one after the other; the exit code.

    Args:
      folder: of the jobs.
      deadline: when to stop, by `time.monotonic`.
      **running: options of `launch.run`.
    """
    while True:
        tree = trees.read(folder)
        found = states.states(tree)
        name = next((name for name, each in found.items() if each.word != "finished"), None)
        if name is None:
            return 0
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        code = worker.attempt(tree, name, time_limit=left, **running)
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
