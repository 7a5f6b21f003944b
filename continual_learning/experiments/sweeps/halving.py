"""Successive halving: all configurations for a while, the best of them for longer, and so on.

A rung is a folder of jobs, whose runs stop together. Those that are promoted go on from their
states in the folders of the next rung, with the rows that they have; so what the last rung leaves
is what a sweep of its configurations alone would have left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.experiments import build, environment
from continual_learning.experiments.base import ExperimentSpec
from continual_learning.experiments.errors import StudyError
from continual_learning.experiments.jobs import tree as trees
from continual_learning.experiments.runner import Lanes, program_of
from continual_learning.experiments.storage import manifest
from continual_learning.experiments.storage.store import Store
from continual_learning.experiments.study import Study
from continual_learning.experiments.sweeps import plan, run
from continual_learning.experiments.sweeps.grid import Configuration
from continual_learning.experiments.sweeps.lanes import configurations, point
from continual_learning.experiments.sweeps.sweep import Sweep, rung_folder

Rank = Callable[[Path, Sequence[Configuration], int], list[Configuration]]
"""(folder of jobs, configurations, steps of their runs) -> the configurations, the best first."""


class Rung(NamedTuple):
    """A stage.

    Attributes:
      configurations: how many run.
      chunks: where their runs stop.
      steps: the same in steps.
    """

    configurations: int
    chunks: int
    steps: int


def rungs(experiment: ExperimentSpec, count: int, eta: int) -> list[Rung]:
    """Stages from `count` configurations on: each keeps 1/eta of them, for eta times as long.

    Stages end with a task where there are enough tasks for that, else with a chunk. There are as
    many as configurations and length allow; the last one is whole runs.
    """
    if eta < 2:
        raise StudyError(f"--halving must be at least 2 (keep one of so many), got {eta}.")
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
    limits: run.Limits,
    **running: Any,
) -> int:
    """Runs the stages, or goes on with them; the exit code.

    Args:
      folder: of the sweep.
      sweep: what is run; has η.
      candidates: the configurations of the first rung.
      rank: puts configurations in order.
      limits: what a program may take.
      **running: options of `run.run`.
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
            limits = run.Limits(lanes=_most_lanes(before[0]))
        if not trees.is_tree(here):
            programs = plan.programs(sweep.experiment, sweep.method, kept, sweep.seeds)
            run.begin(here, programs, limits)
        if before is not None:
            _promote(before[0], here, list(sweep.grid.values))
        code = run.run(here, chunks=rung.chunks, **running)
        if code:
            return code
        before = here, rung.steps
    return 0


def _most_lanes(folder: Path) -> int:
    """Lanes that have fitted into a program."""
    return max(job.study.lanes for job in trees.read(folder).jobs.values())


def _promote(before: Path, here: Path, names: Sequence[str]) -> None:
    """Begins the jobs of a rung with the states and rows of the one before.

    A folder that a kill left without a state begins from nothing, and comes to the same.
    """
    old, new = trees.read(before), trees.read(here)
    where = {
        (point(configuration), seed): (name, lane)
        for name, job in old.jobs.items()
        for lane, (configuration, seed) in enumerate(_runs(job.study, names))
    }
    for name, job in new.jobs.items():
        if not (new.folder(name) / manifest.STUDY).exists():
            sources = [where[point(each), seed] for each, seed in _runs(job.study, names)]
            _gather(new.folder(name), job.study, old, sources)


def _runs(study: Study, names: Sequence[str]) -> list[tuple[Configuration, int]]:
    return list(zip(configurations(study, names), study.seeds, strict=True))


def _gather(folder: Path, study: Study, old: trees.Tree, sources: list[tuple[str, int]]) -> None:
    """Makes the folder of a study from lanes of others, (job, lane) each, that are equally far."""
    [method] = study.methods
    trainer = build.trainer(study.experiment, method, build.data(study.experiment))
    names = list(dict.fromkeys(name for name, _ in sources))
    stores = {name: Store.read(old.folder(name)) for name in names}
    picked = {name: np.array([lane for other, lane in sources if other == name]) for name in names}
    # Lanes come job by job; this puts them into the order of the new study.
    order = np.argsort([i for name in names for i, s in enumerate(sources) if s[0] == name])
    states, done = [], 0
    for name in names:
        part = old.job(name).study
        program = program_of(trainer, Lanes(part.seeds, part.arrays()))
        try:
            found = stores[name].restore(method, program.like)
        finally:
            program.close()
        if found is None:
            raise StudyError(f"{old.folder(name)} has no state to go on from.")
        done, state = found[0] + 1, found[1]
        states.append(jax.tree.map(lambda x, name=name: x[picked[name]], state))
    together = jax.tree.map(lambda *xs: _joined(xs)[order], *states)
    with Store.create(folder, study.to_dict(), environment.facts()) as store:
        for chunk in range(done):
            parts = [
                _rows(stores[n].read_part(method, chunk), old.job(n).study, picked[n])
                for n in names
            ]
            columns = {c: np.concatenate([each[c] for each in parts])[order] for c in parts[0]}
            store.write_part(method, chunk, {c: x.reshape(-1) for c, x in columns.items()})
        store.save(method, done - 1, together, study.lanes, trainer.ring)
        store.log(f"{method}: goes on from {old.path} after {done} chunks")


def _rows(columns: dict[str, np.ndarray], study: Study, lanes: np.ndarray) -> dict[str, np.ndarray]:
    """{column: [these lanes, rows]} of a part."""
    return {name: x.reshape(study.lanes, -1)[lanes] for name, x in columns.items()}


def _joined(arrays: Sequence[Any]) -> Any:
    on_host = all(isinstance(x, np.ndarray) for x in arrays)
    return np.concatenate(arrays) if on_host else jnp.concatenate(arrays)
