"""SAC on environments of the host: from its specification to its program."""

from __future__ import annotations

import math

from continual_learning.agents.base import HostTrainer
from continual_learning.agents.sac_actions import actions_of
from continual_learning.agents.sac_host import sac_host
from continual_learning.envs.host import GymnasiumStream, HostStream, MetaWorld
from continual_learning.experiments import extras, imports, sac_parts
from continual_learning.experiments.errors import StudyError, unknown
from continual_learning.experiments.host_spec import HostSpec
from continual_learning.networks import MLP

chunks = sac_parts.chunks


def data(experiment: HostSpec) -> None:
    """Nothing is shared; what is missing or unknown shows here."""
    extras.require(experiment.suite)
    stream(experiment)


def stream(experiment: HostSpec) -> HostStream:
    """The tasks."""
    if experiment.suite == "gymnasium":
        for name in experiment.sequence:
            imports.check(name)
        try:
            return GymnasiumStream(experiment.sequence)
        except Exception as error:  # Gymnasium's own are of many kinds
            raise StudyError(f"sequence: {error}") from None
    from continual_learning.envs.host.metaworld import LONGEST, task_names

    names = tuple(name.removesuffix("-v3") for name in experiment.sequence)
    for name in names:
        if name not in task_names():
            raise unknown("task of MetaWorld", name, task_names())
    return MetaWorld(
        names,
        experiment.goal,
        experiment.one_hot,
        experiment.episode_length or LONGEST,
        experiment.goals,
    )


def trainer(experiment: HostSpec, method: str, shared: None) -> HostTrainer:
    """SAC on the tasks."""
    tasks = stream(experiment)
    actions = actions_of(tasks)

    def network(outputs: int) -> MLP:
        return MLP(
            experiment.hidden,
            outputs,
            experiment.activation,
            experiment.init,
            experiment.layer_norm,
        )

    return sac_host(
        network(actions.outputs),
        network(actions.critic_outputs),
        tasks,
        sac_parts.optimizers(experiment, method),
        # What bounds discrete SAC's temperature has no place here.
        sac_parts.config(experiment, method, log_alpha_bounds=(-math.inf, math.inf)),
        environments=experiment.environments,
        workers=experiment.workers,
        staleness=1 if experiment.staleness else 0,
        nonfinite=experiment.nonfinite or "refuse",
    )
