"""SAC on games: from its specification to its program."""

from __future__ import annotations

import dataclasses
from typing import Any

from continual_learning.agents.base import Hyper, MakeOptimizer, Trainer
from continual_learning.agents.sac import sac
from continual_learning.agents.sac_config import SACConfig
from continual_learning.envs.episodes import Episodes
from continual_learning.envs.minatar import MinAtar
from continual_learning.envs.streams import TaskStream, Values
from continual_learning.experiments import methods
from continual_learning.experiments.games_spec import GamesSpec
from continual_learning.networks import CNN


def data(experiment: GamesSpec) -> None:
    """Nothing is shared."""


def chunks(experiment: GamesSpec) -> int:
    """A chunk is a few rows."""
    rows = experiment.tasks * experiment.vector_steps_per_task // experiment.steps_per_row
    return rows // experiment.rows_per_chunk


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

    def network(outputs: int) -> CNN:
        return CNN(
            env.observation_shape,
            experiment.channels,
            experiment.hidden,
            outputs,
            kernel_init=experiment.init,
        )

    def optimizer(key: int) -> MakeOptimizer:
        def make(units: Any, hyper: Hyper) -> Any:
            chosen = experiment.methods[method]
            return methods.transformation(
                chosen,
                units,
                init=experiment.init,
                key=key,
                hyper=hyper,
                histogram=experiment.histogram,
            )

        return make

    return sac(
        network(env.actions),
        network(env.actions),
        Episodes(env, experiment.environments, experiment.episode_length, restart="fresh"),
        tasks,
        {"policy": optimizer(0), "critic": optimizer(1)},
        SACConfig(
            steps_per_task=experiment.vector_steps_per_task,
            **{name: getattr(experiment, name) for name in _shared()},
        ),
    )


def _shared() -> list[str]:
    """Fields of SAC that the experiment has by the same name."""
    own = ("steps_per_task", "log_alpha_bounds")
    return [f.name for f in dataclasses.fields(SACConfig) if f.name not in own]
