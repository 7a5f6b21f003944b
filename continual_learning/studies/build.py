"""From an experiment to the programs that run it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from continual_learning.studies.spec import (
    EXAMPLES,
    ControlSpec,
    ExperimentSpec,
    GamesSpec,
    HostSpec,
    SupervisedSpec,
)

if TYPE_CHECKING:
    from continual_learning.agents.common.trainer import HostTrainer, Trainer


def fitted(experiment: ExperimentSpec) -> ExperimentSpec:
    """The experiment with as many examples in a task as there are in its folder, if it has one."""
    if not isinstance(experiment, SupervisedSpec) or experiment.data_folder is None:
        return experiment
    folder = Path(experiment.data_folder)
    if not folder.is_dir():  # which is told when the data is loaded
        return experiment
    from continual_learning.envs.datasets.mnist import count_in

    there, asked = count_in(folder), experiment.examples_per_task
    if there >= (EXAMPLES["mnist"] if asked is None else min(asked, EXAMPLES["mnist"])):
        return experiment
    return dataclasses.replace(experiment, examples_per_task=there)


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
        from continual_learning.studies import supervised

        return supervised
    if isinstance(experiment, ControlSpec):
        from continual_learning.studies import control

        return control
    if isinstance(experiment, GamesSpec):
        from continual_learning.studies import games

        return games
    if isinstance(experiment, HostSpec):
        from continual_learning.studies import host

        return host
    raise TypeError(f"Nothing runs experiments of the kind {type(experiment).__name__}.")
