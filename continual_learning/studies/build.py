"""Makes the data, the tasks and the programs of an experiment."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from continual_learning.studies.experiment import Experiment

if TYPE_CHECKING:
    from continual_learning.agents.catalog import Optimizers
    from continual_learning.agents.common.trainer import HostTrainer, Hyper, MakeOptimizer, Trainer


def fitted(experiment: Experiment) -> Experiment:
    """Return the experiment with values that depend on its data, such as numbers of examples."""
    stream = experiment.stream.fitted()
    if stream == experiment.stream:
        return experiment
    return dataclasses.replace(experiment, stream=stream)


def data(experiment: Experiment) -> Any:
    """Return the data that all methods and seeds share; raise an error if something is missing."""
    return experiment.stream.load()


def stream(experiment: Experiment, shared: Any = None) -> Any:
    """Return the tasks, ready to be trained on; `shared` is the result of `data`."""
    return experiment.stream.build(shared, experiment.tasks)


def optimizers(experiment: Experiment, method: str) -> Optimizers:
    """Return the function that makes the optimizers of a method, one for each network."""
    from continual_learning.studies import methods

    chosen = experiment.methods[method]

    def optimizer(key: int, *, histogram: bool = True) -> MakeOptimizer:
        def make(units: Any, hyper: Hyper) -> Any:
            return methods.transformation(
                chosen,
                units,
                init=experiment.networks.fresh_init,
                key=key,
                hyper=hyper,
                histogram=histogram,
            )

        return make

    return optimizer


def trainer(experiment: Experiment, method: str, shared: Any) -> Trainer | HostTrainer:
    """Return the training program of a method.

    Args:
      experiment: the experiment.
      method: the name of the method.
      shared: the result of `data`.
    """
    from continual_learning.studies import methods

    return experiment.agent.trainer(
        stream(experiment, shared),
        experiment.networks,
        optimizers(experiment, method),
        tasks=experiment.tasks,
        sample_scores=methods.needs_sample_scores(experiment.methods[method]),
    )


def chunks(experiment: Experiment) -> int:
    """Return the number of chunks of a run."""
    return experiment.agent.chunks(experiment.tasks)
