"""Runs a sweep as it says, and chooses the best: what needs both those who run and those who read.

It is imported when a sweep runs, for it needs JAX.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from continual_learning.analysis import selection
from continual_learning.experiments.jobs import tree as trees
from continual_learning.experiments.sweeps import halving, plan, run, sampling
from continual_learning.experiments.sweeps.grid import Configuration
from continual_learning.experiments.sweeps.lanes import candidates, point
from continual_learning.experiments.sweeps.sweep import BEST, Sweep, last_jobs, read, write


def begin(folder: Path, sweep: Sweep, limits: run.Limits, launcher: Any = run.LOCAL) -> None:
    """Writes what a sweep is, and the jobs of one that has them all at once."""
    if sweep.trials is None:
        programs = _programs(sweep, sweep.grid.configurations())
        if sweep.halving is None:
            run.begin(folder, programs, limits, launcher)
    else:
        plan.check_values(sweep.experiment, sweep.method, sweep.grid)
    write(folder, sweep)


def go(
    folder: Path,
    sweep: Sweep,
    limits: run.Limits,
    time_limit: float | None = None,
    **running: Any,
) -> int:
    """Runs a sweep that has begun, or goes on with it, in this process; the exit code."""
    deadline = None if time_limit is None else time.monotonic() + time_limit

    def points(place: Path, chosen: Sequence[Configuration]) -> int:
        if sweep.halving is not None:
            return halving.halve(
                place, sweep, chosen, _rank(sweep), limits, deadline=deadline, **running
            )
        if not trees.is_tree(place):
            run.begin(place, _programs(sweep, chosen), limits)
        return run.run(place, deadline=deadline, **running)

    if sweep.trials is None:
        return points(folder, sweep.grid.configurations())

    def scores(place: Path) -> sampling.Scores:
        return {point(each.configuration): each.mean for each in ranking(place, sweep).best}

    return sampling.sample(folder, sweep, points, scores)


def ranking(folder: Path, sweep: Sweep, metric: str | None = None) -> selection.Ranking:
    """The configurations of a sweep, or of a batch, that are to come to their end."""
    places = [place for place in last_jobs(folder) if trees.is_tree(place)]
    jobs = [job for place in places for job in trees.read(place).jobs.values()]
    studies = [study for place in places for study in trees.studies(place)]
    known = candidates([job.study for job in jobs], sweep.grid)
    return selection.rank(sweep, known, studies, metric=metric)


def choose(folder: Path, metric: str | None = None) -> int:
    """Prints the ranking of a sweep and writes the best settings."""
    sweep = read(folder)
    found = ranking(folder, sweep, metric)
    print(selection.describe(found))
    selection.write_best(folder / BEST, sweep, found)
    print(f"To run the best with other seeds: continual run {folder / BEST} --out DIR")
    return 0


def _programs(sweep: Sweep, chosen: Sequence[Configuration]) -> list[Any]:
    return plan.programs(sweep.experiment, sweep.method, chosen, sweep.seeds)


def _rank(sweep: Sweep) -> halving.Rank:
    def rank(jobs: Path, chosen: Sequence[Configuration], steps: int) -> list[Configuration]:
        found = selection.rank(sweep, chosen, trees.studies(jobs), steps=steps)
        return [each.configuration for each in found.best]

    return rank
