"""The progress of a sweep, with its rungs, its batches and their jobs."""

from __future__ import annotations

import textwrap
from pathlib import Path

from continual_learning.jobs import states
from continual_learning.jobs import tree as trees
from continual_learning.studies import build
from continual_learning.sweeps.halving import rungs
from continual_learning.sweeps.lanes import candidates
from continual_learning.sweeps.sweep import Sweep, first_jobs, read, rung_folder


def describe(folder: Path) -> str:
    """Return a line for the sweep, one for every rung and batch, and those of their jobs."""
    sweep = read(folder)
    if trees.is_tree(folder):
        return states.describe(trees.read(folder))
    what = f"{folder}: {sweep.method} on {sweep.experiment.name}"
    if sweep.trials is None and sweep.halving is None:
        return f"{what}, {_count(len(sweep.grid))}: not begun"
    if sweep.trials is None:
        first = f"{what}, {_count(len(sweep.grid))} to be halved by {sweep.halving}"
        return "\n".join([first, *_rungs(folder, folder, sweep, len(sweep.grid))])
    batches = sorted(folder.glob("batches/*"))
    counts = [_configurations(batch, sweep) for batch in batches]
    lines = [
        f"{what}, {sum(counts)} of {sweep.trials} trials begun, at most {sweep.batch} in a batch"
    ]
    for number, (batch, count) in enumerate(zip(batches, counts, strict=True), 1):
        lines.append(f"batch {number}: {_count(count)}")
        if sweep.halving is not None and count:
            inner = "\n".join(_rungs(folder, batch, sweep, count))
        else:
            inner = _jobs(folder, batch)
        lines.append(textwrap.indent(inner, "  "))
    return "\n".join(lines)


def _rungs(folder: Path, place: Path, sweep: Sweep, count: int) -> list[str]:
    """Return the lines of the rungs in a place: the folder of a sweep or of a batch."""
    assert sweep.halving is not None
    stages, whole = rungs(sweep.experiment, count, sweep.halving), build.chunks(sweep.experiment)
    lines = []
    for number, rung in enumerate(stages):
        name = f"rung {number + 1} of {len(stages)}"
        end = f"{rung.chunks} of {whole} chunks"
        lines.append(f"{name}: {_count(rung.configurations)} until {end}")
        lines.append(textwrap.indent(_jobs(folder, rung_folder(place, number)), "  "))
    return lines


def _jobs(folder: Path, place: Path) -> str:
    if not trees.is_tree(place):
        return f"{place}: not begun"
    return states.describe(trees.read(place), within=folder)


def _configurations(batch: Path, sweep: Sweep) -> int:
    jobs = first_jobs(batch)
    if not trees.is_tree(jobs):
        return 0
    return len(candidates([job.study for job in trees.read(jobs).jobs.values()], sweep.grid))


def _count(number: int) -> str:
    return f"{number} configuration{'s' * (number != 1)}"
