"""SAC on environments of the host: from its specification to its program."""

from __future__ import annotations

import math

from continual_learning import extras
from continual_learning.agents.common.trainer import HostTrainer
from continual_learning.agents.sac.actions import actions_of
from continual_learning.agents.sac.host import sac_host
from continual_learning.envs.host import GymnasiumStream, HostStream, MetaWorld
from continual_learning.networks import MLP
from continual_learning.schema.errors import StudyError, unknown
from continual_learning.studies import sac_parts, trust
from continual_learning.studies.host_spec import HostSpec

chunks = sac_parts.chunks


def data(experiment: HostSpec) -> None:
    """Nothing is shared; what is missing or unknown shows here."""
    extras.require(experiment.suite)
    stream(experiment)


def stream(experiment: HostSpec) -> HostStream:
    """The tasks."""
    if experiment.suite == "gymnasium":
        for name in experiment.sequence:
            trust.check(name)
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
