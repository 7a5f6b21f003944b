"""From an experiment to the programs that run it."""

from __future__ import annotations

from typing import Any

from continual_learning.agents.base import HostTrainer, Trainer
from continual_learning.experiments.spec import (
    ControlSpec,
    ExperimentSpec,
    GamesSpec,
    HostSpec,
    SupervisedSpec,
)


def data(experiment: ExperimentSpec) -> Any:
    """What all methods and seeds share; loaded once."""
    return _kind(experiment).data(experiment)


def trainer(experiment: ExperimentSpec, method: str, shared: Any) -> Trainer | HostTrainer:
    """The training program of a method."""
    return _kind(experiment).trainer(experiment, method, shared)


def chunks(experiment: ExperimentSpec) -> int:
    """How many chunks a run has."""
    return _kind(experiment).chunks(experiment)


def _kind(experiment: ExperimentSpec) -> Any:
    """The module that knows experiments of this kind."""
    if isinstance(experiment, SupervisedSpec):
        from continual_learning.experiments import supervised

        return supervised
    if isinstance(experiment, ControlSpec):
        from continual_learning.experiments import control

        return control
    if isinstance(experiment, GamesSpec):
        from continual_learning.experiments import games

        return games
    if isinstance(experiment, HostSpec):
        from continual_learning.experiments import host

        return host
    raise TypeError(f"Nothing runs experiments of the kind {type(experiment).__name__}.")
