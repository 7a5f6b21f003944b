"""SAC on games: from its specification to its program."""

from __future__ import annotations

from typing import Any

from continual_learning.agents.common.trainer import Trainer
from continual_learning.agents.sac.train import sac
from continual_learning.envs.episodes import Episodes
from continual_learning.envs.minatar import MinAtar
from continual_learning.envs.streams import TaskStream, Values
from continual_learning.networks import CNN
from continual_learning.studies import sac_parts
from continual_learning.studies.games_spec import GamesSpec

PUBLISHED_EVERY = 10_000
"""Steps between two evaluations of the published trainer."""


def data(experiment: GamesSpec) -> None:
    """Nothing is shared."""


chunks = sac_parts.chunks


def stream(experiment: GamesSpec) -> TaskStream:
    """The games in their order, over and over."""
    # A game that is never met would still have to be compiled.
    order = experiment.games[: experiment.tasks]
    games = tuple(dict.fromkeys(order))
    env = MinAtar(games, sticky=experiment.sticky, ramping=experiment.ramping)
    return TaskStream(env, {"game": Values(*map(games.index, order))}, names=order)


def trainer(experiment: GamesSpec, method: str, shared: None) -> Trainer:
    """SAC on the games."""
    tasks = stream(experiment)
    env: Any = tasks.environment
    every = PUBLISHED_EVERY if experiment.published_return else 0
    config = sac_parts.config(experiment, method, published_return_every=every)

    def network(outputs: int) -> CNN:
        return CNN(
            env.observation_shape,
            experiment.channels,
            experiment.hidden,
            outputs,
            kernel_init=experiment.init,
            layer_norm=experiment.layer_norm,
            plain=config.sample_scores,
        )

    return sac(
        network(env.actions),
        network(env.actions),
        Episodes(env, experiment.environments, experiment.episode_length, restart="fresh"),
        tasks,
        sac_parts.optimizers(experiment, method),
        config,
    )
