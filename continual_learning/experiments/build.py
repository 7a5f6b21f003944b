"""From an experiment to the programs that run it."""

from __future__ import annotations

import dataclasses
from typing import Any

from continual_learning.agents.base import Hyper, Trainer
from continual_learning.experiments import methods
from continual_learning.experiments.spec import ExperimentSpec, SupervisedSpec


def data(experiment: ExperimentSpec) -> Any:
    """What all methods and seeds share; loaded once."""
    return _parts(experiment).data(experiment)


def trainer(experiment: ExperimentSpec, method: str, shared: Any) -> Trainer:
    """The training program of a method."""
    chosen = experiment.methods[method]

    def optimizer(units: Any, hyper: Hyper) -> Any:
        return methods.transformation(_with(chosen, hyper), units)

    return _parts(experiment).trainer(experiment, optimizer, shared)


def chunks(experiment: ExperimentSpec) -> int:
    """How many chunks a run has."""
    return _parts(experiment).chunks(experiment)


def _parts(experiment: ExperimentSpec) -> Any:
    if isinstance(experiment, SupervisedSpec):
        from continual_learning.experiments import supervised

        return supervised
    raise TypeError(f"Nothing runs experiments of the kind {type(experiment).__name__}.")


def _with(method: Any, hyper: Hyper) -> Any:
    """A method with some of its numbers replaced."""
    own = {f.name for f in dataclasses.fields(method)} - {"options"}
    fields = {name: value for name, value in hyper.items() if name in own}
    options = {name: value for name, value in hyper.items() if name not in own}
    return dataclasses.replace(method, **fields, options={**method.options, **options})
