"""Successive halving: all configurations run for a while, the best of them for longer, and so on.

A rung is a folder of jobs, whose runs stop together. Promoted runs continue from their states in
the folders of the next rung, with the rows that they have. So the last rung has the same results as
a sweep of its configurations alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from continual_learning.jobs import tree as trees
from continual_learning.schema.errors import StudyError
from continual_learning.studies import build
from continual_learning.studies.experiment import Experiment
from continual_learning.studies.store import manifest
from continual_learning.studies.store.files import remove_folder
from continual_learning.studies.store.store import Store
from continual_learning.studies.study import Study
from continual_learning.sweeps import blocks, plan
from continual_learning.sweeps.gather import gather
from continual_learning.sweeps.grid import Configuration
from continual_learning.sweeps.lanes import configurations, point
from continual_learning.sweeps.sweep import Setup, Sweep, rung_folder

Rank = Callable[[Path, Sequence[Configuration], int], list[Configuration]]
"""(folder of jobs, configurations, steps of their runs) -> the configurations, best first."""


class Rung(NamedTuple):
    """A stage.

    Attributes:
      configurations: the number of configurations that run.
      chunks: the chunks after which their runs stop.
      steps: the steps after which they stop.
    """

    configurations: int
    chunks: int
    steps: int


def rungs(experiment: Experiment, count: int, eta: int) -> list[Rung]:
    """Return the stages from `count` configurations on.

    Every stage keeps 1/eta of the configurations, for eta times as long. A stage ends with a task
    if there are enough tasks, else with a chunk. There are as many stages as the number of
    configurations and the length allow, and the runs of the last one are whole.

    Args:
      experiment: the experiment.
      count: the number of configurations of the first stage.
      eta: η of successive halving.
    """
    if eta < 2:
        raise StudyError(f"--halving must be at least 2 (one of so many is kept), got {eta}.")
    chunks = build.chunks(experiment)
    unit = chunks // experiment.tasks if experiment.tasks >= eta else 1
    stages = 1
    while eta**stages <= min(count, chunks // unit):
        stages += 1
    found = []
    for number in range(stages):
        share = eta ** (stages - 1 - number)
        length = -(-(chunks // unit) // share) * unit
        found.append(Rung(count // eta**number, length, experiment.steps * length // chunks))
    return found


def halve(
    folder: Path,
    sweep: Sweep,
    candidates: Sequence[Configuration],
    rank: Rank,
    setup: Setup,
    run_jobs: Callable[[Path], int],
) -> int:
    """Run the stages, or continue them; return the exit code.

    Args:
      folder: the folder of the sweep.
      sweep: the sweep, with its η.
      candidates: the configurations of the first rung.
      rank: sorts configurations, the best first.
      setup: the setup of the sweep.
      run_jobs: (folder of jobs) -> exit code, 0 if all of them are finished.
    """
    assert sweep.halving is not None
    kept = list(candidates)
    before: tuple[Path, int] | None = None
    for number, rung in enumerate(rungs(sweep.experiment, len(candidates), sweep.halving)):
        here = rung_folder(folder, number)
        if before is not None:
            best = rank(before[0], kept, before[1])[: rung.configurations]
            chosen = {point(each) for each in best}
            kept = [each for each in kept if point(each) in chosen]  # in the order of the grid
            setup = dataclasses.replace(setup, memory=None, lanes=_most_lanes(before[0]))
        if not trees.is_tree(here):
            programs = plan.programs(sweep.experiment, sweep.method, kept, sweep.seeds)
            blocks.begin(here, blocks.divide(programs, setup), setup, rung.chunks)
        if before is not None:
            _promote(before[0], here, list(sweep.grid.values))
        code = run_jobs(here)
        if code:
            return code
        before = here, rung.steps
    return 0


def _most_lanes(folder: Path) -> int:
    """Return the largest number of lanes that has fitted into a program."""
    return max(job.study.lanes for job in trees.read(folder).jobs.values())


def _promote(before: Path, here: Path, names: Sequence[str]) -> None:
    """Begin the jobs of a rung with the states and rows of the previous one.

    A folder is made again if a killed process left it without a state.
    """
    old, new = trees.read(before), trees.read(here)
    where = {
        (point(configuration), seed): (old.folder(name), lane)
        for name, job in old.jobs.items()
        for lane, (configuration, seed) in enumerate(_runs(job.study, names))
    }
    for name, job in new.jobs.items():
        folder = new.folder(name)
        store = Store.read(folder) if manifest.is_study(folder) else None
        if store is None or not (store.saved() or any(store.progress().values())):
            if folder.exists():
                remove_folder(folder)
            sources = [where[point(each), seed] for each, seed in _runs(job.study, names)]
            gather(folder, job.study, sources)


def _runs(study: Study, names: Sequence[str]) -> list[tuple[Configuration, int]]:
    return list(zip(configurations(study, names), study.seeds, strict=True))
