"""Running a sweep in a folder, resuming it, and choosing the best settings."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from continual_learning import extras, plugins
from continual_learning.jobs import launchers, manage, states
from continual_learning.jobs import tree as trees
from continual_learning.jobs.launchers.submitit import Submitit
from continual_learning.schema.errors import command, printable
from continual_learning.studies import build, launch
from continual_learning.studies.contents import load_plugins
from continual_learning.studies.options import DEFAULT, RunOptions
from continual_learning.studies.study import Study
from continual_learning.sweeps import blocks, halving, plan, sampling, selection
from continual_learning.sweeps.grid import Configuration
from continual_learning.sweeps.lanes import candidates, point
from continual_learning.sweeps.sweep import (
    BEST,
    Setup,
    Sweep,
    begun,
    last_jobs,
    read,
    read_setup,
    write,
)


def run(
    sweep: Sweep,
    out: str | Path,
    setup: Setup | None = None,
    options: RunOptions = DEFAULT,
    *,
    retry: bool = False,
) -> int:
    """Run a sweep in a folder, or resume it, and choose the best settings; return the exit code.

    Args:
      sweep: the sweep.
      out: the folder, a new one or that of the same sweep.
      setup: the setup; None for one process, with programs that fit into memory.
      options: the options with which its studies are run.
      retry: whether to resume failed jobs, too.
    """
    _prepare(options)
    out, setup = Path(out), setup or Setup()
    both = build.fitted(sweep.experiment), build.fitted(sweep.reported)
    sweep = dataclasses.replace(sweep, experiment=both[0], reported=both[1])
    if not begun(out, sweep):
        _begin(out, sweep, setup)
    return _go(out, sweep, setup, options, retry)


def resume(
    folder: str | Path,
    options: RunOptions = DEFAULT,
    *,
    launcher: Mapping[str, Any] | None = None,
    retry: bool = False,
) -> int:
    """Resume the sweep of a folder and choose the best settings; return the exit code.

    Args:
      folder: the folder of the sweep.
      options: the options with which its studies are run.
      launcher: the launcher that replaces its own, if not None.
      retry: whether to resume failed jobs, too.
    """
    _prepare(options)
    folder = Path(folder)
    load_plugins(folder)
    setup = read_setup(folder)
    if launcher is not None:
        setup = dataclasses.replace(setup, launcher=launcher)
    elif setup.launcher is not None:
        launchers.stored(setup.launcher, folder)
    return _go(folder, read(folder), setup, options, retry)


def ranking(folder: str | Path, metric: str | None = None) -> selection.Ranking:
    """Return the ranking of a sweep's configurations, by its own metric or another one."""
    return _ranking(Path(folder), read(Path(folder)), metric)


def choose(folder: str | Path, metric: str | None = None) -> int:
    """Print the ranking of a sweep and write the best settings, the first ones among equals."""
    folder = Path(folder)
    found = ranking(folder, metric)
    print(printable(selection.describe(found)))
    selection.write_best(folder / BEST, read(folder), found)
    if not found.undecided:
        best = command("run", folder / BEST, *plugins.words())
        print(f"To run the best with other seeds: {best} --out DIR")
    return 0


def _prepare(options: RunOptions) -> None:
    for sink in options.sinks:
        extras.require(sink)
    launch.prepare(options)


def _begin(folder: Path, sweep: Sweep, setup: Setup) -> None:
    """Write a sweep, and its jobs if it begins them all at once.

    Nothing is written if the sweep has an error. The sweep is written first, and `_go` writes the
    jobs if this process is killed in between.
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
    divided = blocks.divide(programs, setup) if sweep.halving is None else None
    write(folder, sweep, setup)
    if divided is not None:
        blocks.begin(folder, divided, setup)


def _go(folder: Path, sweep: Sweep, setup: Setup, options: RunOptions, retry: bool) -> int:
    """Run the rest of a sweep and choose the best settings; return the exit code."""
    if setup.launcher is not None:
        _leave_memory()
        if sweep.halving is None and sweep.trials is None:
            _begin_jobs(folder, sweep, sweep.grid.configurations(), setup)
            return _hand_over(folder, setup.launcher, options, retry)
    code = _run_stages(folder, sweep, setup, _runner(folder, setup, options, retry))
    if code:
        print(
            "The sweep is not finished. To go on, give the same command again, or: "
            f"{command('resume', folder)}"
        )
        return code
    return choose(folder)


def _run_stages(folder: Path, sweep: Sweep, setup: Setup, run_jobs: Callable[[Path], int]) -> int:
    """Run the jobs of a sweep, rung by rung and batch by batch; return the exit code."""

    def points(place: Path, chosen: Sequence[Configuration]) -> int:
        if sweep.halving is not None:
            return halving.halve(place, sweep, chosen, _rank(sweep), setup, run_jobs)
        _begin_jobs(place, sweep, chosen, setup)
        return run_jobs(place)

    if sweep.trials is None:
        return points(folder, sweep.grid.configurations())

    def scores(place: Path) -> sampling.Scores:
        return {point(each.configuration): each.mean for each in _ranking(place, sweep).best}

    return sampling.sample(folder, sweep, points, scores)


def _begin_jobs(place: Path, sweep: Sweep, chosen: Sequence[Configuration], setup: Setup) -> None:
    if not trees.is_tree(place):
        blocks.begin(place, blocks.divide(_programs(sweep, chosen), setup), setup)


def _runner(folder: Path, setup: Setup, options: RunOptions, retry: bool) -> Callable[[Path], int]:
    """Return a function (folder of jobs) -> exit code, which waits for the end of the jobs."""
    end = None if options.time_limit is None else time.monotonic() + options.time_limit

    def left() -> RunOptions:
        if end is None:
            return options
        return dataclasses.replace(options, time_limit=max(0.001, end - time.monotonic()))

    if setup.launcher is None:
        return lambda jobs: blocks.run(jobs, left)
    launcher = launchers.from_dict(setup.launcher)
    # With submitit, a job is queued again after the time limit, so that others can run.
    given = (lambda: options) if isinstance(launcher, Submitit) else left
    return lambda jobs: manage.resume(jobs, launcher, given(), retry=retry, within=folder)


def _hand_over(folder: Path, launcher: Mapping[str, Any], options: RunOptions, retry: bool) -> int:
    """Run all jobs of a sweep with a launcher, and choose the best if they are finished then."""
    code = manage.resume(folder, launchers.from_dict(launcher), options, retry=retry)
    found = states.states(trees.read(folder)).values()
    if all(state.word == "finished" for state in found):
        return choose(folder)
    print(f"When all jobs are finished: {command('select', folder)}")
    return code


def _leave_memory() -> None:
    """Make JAX allocate only the device memory that this process uses, to leave the rest for jobs.

    This process needs a device only to measure programs and to move states.
    """
    name = "XLA_PYTHON_CLIENT_PREALLOCATE"
    before = os.environ.get(name)
    os.environ[name] = "false"
    try:
        jax.devices()  # This reads the variable.
    finally:
        if before is None:
            del os.environ[name]  # Jobs may allocate all memory.
        else:
            os.environ[name] = before


def _ranking(folder: Path, sweep: Sweep, metric: str | None = None) -> selection.Ranking:
    """Return the ranking of a sweep or a batch, of the configurations that are run to the end."""
    places = [place for place in last_jobs(folder) if trees.is_tree(place)]
    jobs = [job for place in places for job in trees.read(place).jobs.values()]
    studies = [study for place in places for study in trees.studies(place)]
    known = candidates([job.study for job in jobs], sweep.grid)
    return selection.rank(sweep, known, studies, metric=metric)


def _programs(sweep: Sweep, chosen: Sequence[Configuration]) -> list[Study]:
    return plan.programs(sweep.experiment, sweep.method, chosen, sweep.seeds)


def _rank(sweep: Sweep) -> halving.Rank:
    def rank(jobs: Path, chosen: Sequence[Configuration], steps: int) -> list[Configuration]:
        found = selection.rank(sweep, chosen, trees.studies(jobs), steps=steps)
        return [each.configuration for each in found.best]

    return rank
