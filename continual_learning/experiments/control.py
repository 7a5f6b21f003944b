"""PPO on robots: from its specification to its program."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax

from continual_learning.agents.base import Hyper, MakeOptimizer, Trainer
from continual_learning.agents.ppo import ppo
from continual_learning.agents.ppo_config import PPOConfig
from continual_learning.envs.delayed import Delayed
from continual_learning.envs.episodes import Episodes
from continual_learning.envs.streams import TaskStream, parse_changes
from continual_learning.experiments import extras, methods
from continual_learning.experiments.control_spec import ControlSpec
from continual_learning.networks import MLP
from continual_learning.physics import CPU_OPTIONS


def data(experiment: ControlSpec) -> None:
    """Nothing is shared; what is missing shows here."""
    extras.require("brax")


def chunks(experiment: ControlSpec) -> int:
    """A chunk is a few iterations."""
    return experiment.tasks * experiment.iterations_per_task // experiment.iterations_per_chunk


def stream(experiment: ControlSpec) -> TaskStream:
    """The robot, and how its world changes."""
    from continual_learning.envs.robots import ROBOTS

    robot: Any = ROBOTS[experiment.robot]
    env = robot(experiment.physics, experiment.friction, precision=experiment.precision)
    actions, observations = (
        experiment.longest_action_delay,
        experiment.longest_observation_delay,
    )
    changes = parse_changes(experiment.changes)
    if actions or observations or experiment.told_delays != "blind":
        interval = any(name.endswith("_delay_high") for name in changes)
        env = Delayed(env, actions, observations, experiment.told_delays, interval)
    return TaskStream(env, changes)


def policy(experiment: ControlSpec, actions: int) -> MLP:
    """Observations -> mean and deviation of every action."""
    return _network(experiment, experiment.policy_hidden, 2 * actions)


def trainer(experiment: ControlSpec, method: str, shared: None) -> Trainer:
    """PPO on the stream of tasks."""
    tasks = stream(experiment)
    env = tasks.environment

    def optimizer(key: int) -> MakeOptimizer:
        def make(units: Any, hyper: Hyper) -> Any:
            chosen = experiment.methods[method]
            return methods.transformation(chosen, units, init=experiment.init, key=key, hyper=hyper)

        return make

    made = ppo(
        policy(experiment, env.action_size),
        _network(experiment, experiment.value_hidden, 1),
        Episodes(
            env, experiment.environments, experiment.episode_length, restart=experiment.restart
        ),
        tasks,
        {"policy": optimizer(0), "value": optimizer(1)},
        PPOConfig(
            **{name: getattr(experiment, name) for name in _shared()},
            sample_scores=methods.needs_sample_scores(experiment.methods[method]),
        ),
    )
    return dataclasses.replace(made, options={**made.options, **compiler_options(experiment)})


def compiler_options(experiment: ControlSpec) -> dict[str, str]:
    """Return what the physics asks of the compiler on this device."""
    unrolled_on_cpu = experiment.physics == "unrolled" and jax.default_backend() == "cpu"
    return dict(CPU_OPTIONS) if unrolled_on_cpu else {}


def _network(experiment: ControlSpec, hidden: tuple[int, ...], outputs: int) -> MLP:
    return MLP(hidden, outputs, experiment.activation, experiment.init, experiment.layer_norm)


def _shared() -> list[str]:
    """Fields of PPO that the experiment has by the same name."""
    others = ("probe", "sample_scores")
    return [f.name for f in dataclasses.fields(PPOConfig) if f.name not in others]
