"""Runs a sweep as it says, and chooses the best: what needs both those who run and those who read.

It is imported when a sweep runs, for it needs JAX.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from continual_learning import plugins
from continual_learning.cli.jobs import running_of
from continual_learning.jobs import launchers, manage, states
from continual_learning.jobs import tree as trees
from continual_learning.jobs.launchers.submitit import Submitit
from continual_learning.schema.errors import command, printable
from continual_learning.studies.contents import load_plugins
from continual_learning.studies.study import Study
from continual_learning.sweeps import halving, plan, run, sampling, selection
from continual_learning.sweeps.grid import Configuration
from continual_learning.sweeps.lanes import candidates, point
from continual_learning.sweeps.sweep import BEST, Setup, Sweep, last_jobs, read, read_setup, write


def begin(folder: Path, sweep: Sweep, setup: Setup) -> None:
    """Writes what a sweep is, and the jobs of one that has them all at once.

    Nothing is written where something is wrong. The sweep is written first: `go` makes up for the
    jobs if this process is killed then.
    """
    if setup.launcher is not None:
        _leave_memory()
    if sweep.trials is not None:
        plan.check_values(sweep.experiment, sweep.method, sweep.grid)
        plan.check_metric(Study(sweep.experiment, [sweep.method], sweep.seeds), sweep.metric)
        write(folder, sweep, setup)
        return
    programs = _programs(sweep, sweep.grid.configurations())
    for program in programs:
        plan.check_metric(program, sweep.metric)
    divided = run.divide(programs, setup) if sweep.halving is None else None
    write(folder, sweep, setup)
    if divided is not None:
        run.begin(folder, divided, setup)


def resume(
    folder: Path, launcher: Mapping[str, Any] | None, running: dict[str, Any], *, retry: bool
) -> int:
    """Goes on with the sweep of a folder as the command that began it would; the exit code.

    Args:
      folder: of the sweep.
      launcher: in place of its own, if not None.
      running: options of `launch.run`.
      retry: whether to go on with jobs that failed, too.
    """
    load_plugins(folder)
    setup = read_setup(folder)
    if launcher is not None:
        setup = dataclasses.replace(setup, launcher=launcher)
    elif setup.launcher is not None:
        launchers.stored(setup.launcher, folder)
    return go(folder, read(folder), setup, running, retry=retry)


def go(
    folder: Path, sweep: Sweep, setup: Setup, running: dict[str, Any], *, retry: bool = False
) -> int:
    """Runs a sweep that has begun, or goes on with it, and chooses the best; the exit code."""
    if setup.launcher is not None:
        _leave_memory()
        if sweep.halving is None and sweep.trials is None:
            _begin_jobs(folder, sweep, sweep.grid.configurations(), setup)
            return _hand_over(folder, setup.launcher, running, retry)
    code = _go(folder, sweep, setup, _runner(folder, setup, running, retry))
    if code:
        print(
            "The sweep is not finished. To go on, give the same command again, or: "
            f"{command('resume', folder)}"
        )
        return code
    return choose(folder)


def _go(folder: Path, sweep: Sweep, setup: Setup, run_jobs: Callable[[Path], int]) -> int:
    def points(place: Path, chosen: Sequence[Configuration]) -> int:
        if sweep.halving is not None:
            return halving.halve(place, sweep, chosen, _rank(sweep), setup, run_jobs)
        _begin_jobs(place, sweep, chosen, setup)
        return run_jobs(place)

    if sweep.trials is None:
        return points(folder, sweep.grid.configurations())

    def scores(place: Path) -> sampling.Scores:
        return {point(each.configuration): each.mean for each in ranking(place, sweep).best}

    return sampling.sample(folder, sweep, points, scores)


def _begin_jobs(place: Path, sweep: Sweep, chosen: Sequence[Configuration], setup: Setup) -> None:
    if not trees.is_tree(place):
        run.begin(place, run.divide(_programs(sweep, chosen), setup), setup)


def _runner(
    folder: Path, setup: Setup, running: dict[str, Any], retry: bool
) -> Callable[[Path], int]:
    """(folder of jobs) -> exit code: runs them here, or by a launcher that is waited for."""
    limit = running["time_limit"]
    deadline = None if limit is None else time.monotonic() + limit
    if setup.launcher is None:
        here = {name: value for name, value in running.items() if name != "time_limit"}
        return lambda jobs: run.run(jobs, deadline=deadline, **here)
    launcher, asked = launchers.from_dict(setup.launcher), running_of(running)

    def launched(jobs: Path) -> int:
        given = asked
        # With submitit it is after how long a job lets others go first, and is queued again.
        if deadline is not None and not isinstance(launcher, Submitit):
            left = max(0.001, deadline - time.monotonic())
            given = dataclasses.replace(asked, time_limit=left)
        return manage.resume(jobs, launcher, given, retry=retry, within=folder)

    return launched


def _hand_over(
    folder: Path, launcher: Mapping[str, Any], running: dict[str, Any], retry: bool
) -> int:
    """Has a launcher run all jobs of a sweep; chooses the best if they are finished then."""
    code = manage.resume(folder, launchers.from_dict(launcher), running_of(running), retry=retry)
    found = states.states(trees.read(folder)).values()
    if all(state.word == "finished" for state in found):
        return choose(folder)
    print(f"When all jobs are finished: {command('select', folder)}")
    return code


def _leave_memory() -> None:
    """Takes no more memory of the devices than is used: it is for the jobs, and others see to them.

    What this process needs of a device is to measure programs and to move states.
    """
    name = "XLA_PYTHON_CLIENT_PREALLOCATE"
    before = os.environ.get(name)
    os.environ[name] = "false"
    try:
        jax.devices()  # reads it
    finally:
        if before is None:
            del os.environ[name]  # jobs are to take what they can
        else:
            os.environ[name] = before


def ranking(folder: Path, sweep: Sweep, metric: str | None = None) -> selection.Ranking:
    """The configurations of a sweep, or of a batch, that are to come to their end."""
    places = [place for place in last_jobs(folder) if trees.is_tree(place)]
    jobs = [job for place in places for job in trees.read(place).jobs.values()]
    studies = [study for place in places for study in trees.studies(place)]
    known = candidates([job.study for job in jobs], sweep.grid)
    return selection.rank(sweep, known, studies, metric=metric)


def choose(folder: Path, metric: str | None = None) -> int:
    """Print the ranking of a sweep and write the best settings, of equals the first."""
    sweep = read(folder)
    found = ranking(folder, sweep, metric)
    print(printable(selection.describe(found)))
    selection.write_best(folder / BEST, sweep, found)
    if not found.undecided:
        best = command("run", folder / BEST, *plugins.words())
        print(f"To run the best with other seeds: {best} --out DIR")
    return 0


def _programs(sweep: Sweep, chosen: Sequence[Configuration]) -> list[Any]:
    return plan.programs(sweep.experiment, sweep.method, chosen, sweep.seeds)


def _rank(sweep: Sweep) -> halving.Rank:
    def rank(jobs: Path, chosen: Sequence[Configuration], steps: int) -> list[Configuration]:
        found = selection.rank(sweep, chosen, trees.studies(jobs), steps=steps)
        return [each.configuration for each in found.best]

    return rank
