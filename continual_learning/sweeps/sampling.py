"""Points of a grid that Optuna suggests in batches, whose configurations run side by side.

Optuna's file `optuna.log` keeps the suggestions and their scores. It stores a setting as the number
of its value in the grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from continual_learning import extras
from continual_learning.jobs import tree as trees
from continual_learning.studies.store.files import check_no_links
from continual_learning.sweeps.grid import Configuration, Grid
from continual_learning.sweeps.lanes import Point, candidates, point
from continual_learning.sweeps.sweep import Sweep, batch_folder, first_jobs

FILE = "optuna.log"
_PATIENCE = 10  # the most suggestions for one new configuration

Scores = dict[Point, float]
"""{configuration of a finished run: mean final performance}."""


class Suggestions:
    """The suggestions of Optuna for a grid.

    Args:
      folder: the folder of the sweep, which holds Optuna's file.
      grid: the grid of the points.
    """

    def __init__(self, folder: Path, grid: Grid):
        optuna = self._optuna = extras.load("optuna")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        check_no_links(folder / FILE)
        file = optuna.storages.journal.JournalFileBackend(str(folder / FILE))
        self._grid = grid
        self._study: Any = optuna.create_study(
            storage=optuna.storages.JournalStorage(file),
            study_name="sweep",
            direction="maximize",
            load_if_exists=True,
        )
        # The seed changes so that a resumed sweep does not repeat its draws.
        self._study.sampler = optuna.samplers.TPESampler(seed=len(self._study.trials))

    def waiting(self) -> dict[Point, int]:
        """Return {configuration: its trial} of the suggestions without a score."""
        return self._trials("RUNNING")

    def ask(self, count: int) -> list[Configuration]:
        """Return up to `count` configurations that were not suggested before."""
        known, found = {**self.waiting(), **self._trials("COMPLETE", "PRUNED")}, []
        space, count = self._space(), min(count, len(self._grid) - len(known))
        for _ in range(_PATIENCE * count):
            if len(found) == count:
                break
            trial = self._study.ask(space)
            configuration = self._configuration(trial.params)
            if point(configuration) in known:
                self._study.tell(trial.number, state=self._state("FAIL"))
                continue
            known[point(configuration)] = trial.number
            found.append(configuration)
        return found

    def tell(self, trial: int, score: float | None) -> None:
        """Report the score of a configuration, or None if it was dropped before its end."""
        if score is None:
            self._study.tell(trial, state=self._state("PRUNED"))
        else:
            self._study.tell(trial, -math.inf if math.isnan(score) else score)

    def forget(self, trial: int) -> None:
        """Report that a configuration will not run."""
        self._study.tell(trial, state=self._state("FAIL"))

    def tried(self) -> int:
        """Return the number of configurations with a report."""
        return len(self._trials("COMPLETE", "PRUNED"))

    def _trials(self, *states: str) -> dict[Point, int]:
        wanted = tuple(map(self._state, states))
        trials = self._study.get_trials(deepcopy=False, states=wanted)
        return {point(self._configuration(each.params)): each.number for each in trials}

    def _state(self, name: str) -> Any:
        return self._optuna.trial.TrialState[name]

    def _configuration(self, params: dict[str, int]) -> Configuration:
        return {name: values[params[name]] for name, values in self._grid.values.items()}

    def _space(self) -> dict[str, Any]:
        """Return Optuna's search space, in which only sorted numbers have an order."""
        make, space = self._optuna.distributions, {}
        for name, values in self._grid.values.items():
            numbers = all(type(value) in (int, float) for value in values)
            ordered = numbers and list(values) == sorted(values)  # pyright: ignore
            count = len(values)
            space[name] = (
                make.IntDistribution(0, count - 1)
                if ordered
                else make.CategoricalDistribution(tuple(range(count)))
            )
        return space


def sample(
    folder: Path,
    sweep: Sweep,
    run: Callable[[Path, Sequence[Configuration]], int],
    score: Callable[[Path], Scores],
) -> int:
    """Run batches until the sweep has all its trials; return the exit code.

    Args:
      folder: the folder of the sweep.
      sweep: the sweep, with its grid, its number of trials and the size of a batch.
      run: (folder of a batch, its configurations) -> exit code; continues a batch that exists.
      score: (folder of a batch) -> the scores of its configurations.
    """
    assert sweep.trials is not None and sweep.batch is not None
    suggestions, number = Suggestions(folder, sweep.grid), 0
    while True:
        place = batch_folder(folder, number)
        jobs, waiting = first_jobs(place), suggestions.waiting()
        if trees.is_tree(jobs):
            begun = trees.read(jobs).jobs.values()
            asked = candidates([job.study for job in begun], sweep.grid)
        else:
            for trial in waiting.values():  # A killed process asked for these.
                suggestions.forget(trial)
            asked = suggestions.ask(min(sweep.batch, sweep.trials - suggestions.tried()))
            waiting = suggestions.waiting()
        if not asked:
            if suggestions.tried() < sweep.trials:
                trees.note(folder, f"Optuna knows no more than these {suggestions.tried()} points.")
            return 0
        if any(point(each) in waiting for each in asked):
            code = run(place, asked)
            if code:
                return code
            scores = score(place)
            for each in asked:
                if point(each) in waiting:
                    suggestions.tell(waiting[point(each)], scores.get(point(each)))
        number += 1
