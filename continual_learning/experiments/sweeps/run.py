"""Runs the jobs of a sweep in turn; one that does not fit into memory becomes two."""

from __future__ import annotations

import dataclasses
import datetime
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

from continual_learning.experiments import launch
from continual_learning.experiments.errors import StudyError
from continual_learning.experiments.jobs import tree as trees
from continual_learning.experiments.jobs.job import Job
from continual_learning.experiments.storage import manifest
from continual_learning.experiments.storage.store import Store
from continual_learning.experiments.study import Study
from continual_learning.experiments.sweeps import pack
from continual_learning.experiments.sweeps.plan import divide

LOCAL = {"name": "local"}
"""Who runs the jobs if nobody else is named, also those that `continual resume` goes on with."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a program may take.

    Attributes:
      memory: bytes of a device; None for what is there.
      lanes: at most; None for as many as fit, which is measured.
    """

    memory: int | None = None
    lanes: int | None = None


def begin(
    folder: Path,
    programs: list[Study],
    limits: Limits,
    launcher: Mapping[str, Any] = LOCAL,
) -> None:
    """Divides programs into jobs that fit into memory, and writes them into a new folder."""
    jobs, lines = [], []
    for study in programs:
        blocks, fit = pack.blocks(study, limits.memory, limits.lanes)
        numbers = range(len(jobs), len(jobs) + len(blocks))
        jobs += [Job(f"block{n:03}", part) for n, part in zip(numbers, blocks, strict=True)]
        lines.append(_told(study, blocks, fit))
    trees.create(folder, jobs, launcher)
    for line in lines:
        log(folder, line)


def run(
    folder: Path, *, chunks: int | None = None, deadline: float | None = None, **running: Any
) -> int:
    """Runs the jobs of a folder that are not finished, one after the other; the exit code.

    Args:
      folder: of the jobs.
      chunks: end each after so many.
      deadline: when to stop, by `time.monotonic`.
      **running: options of `launch.run`.
    """
    while True:
        tree = trees.read(folder)
        job = next((each for each in tree.jobs.values() if not _ended(tree, each, chunks)), None)
        if job is None:
            return 0
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            code = _run(tree.folder(job.name), job.study, chunks, time_limit=left, **running)
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            code = None
        # Not in the block above: there the error would keep all arrays of the program alive.
        if code is None:
            _halve(tree, job)
        elif code:
            return code


def log(folder: Path, line: str) -> None:
    """Appends a line to the log of the sweep, and prints it."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    with open(folder / "log.txt", "a", encoding="utf-8") as file:
        file.write(f"{now} {line}\n")
    print(line)


def _run(folder: Path, study: Study, chunks: int | None, **running: Any) -> int:
    if (folder / manifest.STUDY).is_file():
        return launch.resume(folder, chunks=chunks, **running)
    return launch.run(
        study.experiment,
        study.methods,
        study.seeds,
        folder,
        hyper=study.hyper,
        chunks=chunks,
        **running,
    )


def _ended(tree: trees.Tree, job: Job, chunks: int | None) -> bool:
    folder, experiment, [method] = tree.folder(job.name), job.study.experiment, job.study.methods
    if not (folder / manifest.STUDY).is_file():
        return False
    return launch.ended(Store.read(folder), experiment, method, chunks)


def _halve(tree: trees.Tree, job: Job) -> None:
    """Puts two jobs into the place of one that ran out of memory before it had done anything."""
    folder, lanes = tree.folder(job.name), job.study.lanes
    if Store.read(folder).progress().get(job.study.methods[0], 0):
        raise StudyError(
            f"{folder} ran out of memory after some chunks, with everything kept. Free the memory "
            "of the device and go on with the sweep."
        )
    if lanes == 1:
        raise StudyError(
            f"{folder} ran out of memory with a single lane. Choose a smaller program (fewer "
            "environments, a smaller replay)."
        )
    halves = divide(job.study, -(-lanes // 2))
    jobs = []
    for each in tree.jobs.values():
        names = [each.name] if each.name != job.name else [f"{job.name}{end}" for end in "ab"]
        studies = [each.study] if each.name != job.name else halves
        jobs += [Job(name, study) for name, study in zip(names, studies, strict=True)]
    trees.replace(tree, jobs)
    shutil.rmtree(folder)
    sizes = " and ".join(str(half.lanes) for half in halves)
    log(tree.path, f"{job.name}: {lanes} lanes ran out of memory; two jobs of {sizes} instead.")


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
