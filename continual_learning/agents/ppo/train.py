"""Proximal policy optimization on a stream of tasks of environments in JAX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from continual_learning.agents.common.statistics import disjoint, in_last_row
from continual_learning.agents.common.tasks import Tasks
from continual_learning.agents.common.trainer import (
    COMPILER_OPTIONS,
    Hyper,
    MakeOptimizer,
    Trainer,
    strongly_typed,
)
from continual_learning.agents.ppo.config import PPOConfig
from continual_learning.agents.ppo.learner import Learner, PPOLearner
from continual_learning.agents.ppo.rollout import collect
from continual_learning.agents.ppo.update import Params
from continual_learning.envs.base import Task
from continual_learning.envs.catalog import OnDevice
from continual_learning.envs.episodes import Episodes, Live


class PPOState(NamedTuple):
    """The state of training, which the next chunk starts from.

    Attributes:
      key: the key of the seed, which never changes.
      params: the weights of the networks, {"policy": …, "value": …}.
      optimizers: the states of their optimizers.
      normalizer: statistics of the observations; () if they are not normalized.
      episodes: `EpisodesState`, the state of the environments.
      iteration: int32 [], the number of iterations done.
    """

    key: jax.Array
    params: Params
    optimizers: Params
    normalizer: Any
    episodes: Any
    iteration: jax.Array

    @property
    def learner(self) -> Learner:
        """The part of the state that the updates of an iteration change."""
        return Learner(self.params, self.optimizers, self.normalizer)


def ppo(
    policy: nn.Module,
    value: nn.Module,
    problem: OnDevice,
    optimizers: Mapping[str, MakeOptimizer],
    config: PPOConfig,
    *,
    tasks: int,
    sample_scores: bool = False,
) -> Trainer:
    """Return a trainer on a stream of tasks.

    Actions are discrete where the environment has an attribute `actions`, their number.

    There is one row per iteration, with "step" (of all environments of the seed) and "task"; the
    task's parameters and the environment's metrics by their own names; `statistics` of the
    episodes; the metrics of `PPOLearner.learn`; and with diagnostics `ranks`, in the last row of a
    chunk (NaN in the others).

    `hyper` may hold names of `config.numbers()`, whose values replace the config's. The rest goes
    to both optimizers, which raise an error for unknown names.

    Args:
      policy: maps observations [batch, observation_size] to [batch, 2·action_size], a
        `DiagonalGaussian`, or to logits [batch, actions].
      value: maps observations to values [batch, 1].
      problem: the environment, and what changes from task to task.
      optimizers: {"policy": …, "value": …}, functions that make an optimizer from the units of the
        network (with `attach_reset_method`, whose log is reported).
      config: sizes and numbers.
      tasks: the number of tasks.
      sample_scores: whether reset methods get per-sample scores.
    """
    env = problem.stream.environment
    learning = PPOLearner.of(policy, value, env, optimizers, config, sample_scores)
    episodes = Episodes(env, config.environments, problem.length, problem.restart)
    on_tasks = Tasks(episodes, problem.stream)

    def init(key: jax.Array, hyper: Hyper, data: Any) -> PPOState:
        learner, start = learning.init(key, hyper), on_tasks.start(key)
        return strongly_typed(PPOState(key, *learner, start, jnp.zeros((), jnp.int32)))

    def iterate(
        state: PPOState, live: Live, task: Task, hyper: Hyper
    ) -> tuple[PPOState, Live, jax.Array, dict[str, jax.Array]]:
        """Make a rollout and the updates on it.

        The third result is observations to measure on, and the last one is the row.
        """
        key, iteration = state.key, state.iteration

        def act(step: jax.Array, observation: jax.Array) -> Any:
            return learning.act(state.learner, key, iteration, step, observation)

        live, rollout, statistics = collect(
            episodes,
            live,
            task,
            act,
            steps=config.rollout,
            keep_reached=config.truncation == "bootstrap",
        )
        learner, probe, said = learning.learn(
            state.learner, rollout, live.observation, key, iteration, hyper
        )
        row = {
            "step": (iteration + 1) * (config.rollout * config.environments),
            "task": iteration // config.iterations_per_task,
        }
        row = disjoint(row, said, statistics, dict(task))
        return PPOState(key, *learner, (), iteration + 1), live, probe, row

    def chunk(state: PPOState, hyper: Hyper, data: Any) -> tuple[PPOState, dict[str, jax.Array]]:
        number = state.iteration // config.iterations_per_task
        begins = state.iteration % config.iterations_per_task == 0
        task, live = on_tasks.enter(state.key, number, begins, state.episodes)

        def body(carry: Any, _: None) -> Any:
            state, live, _ = carry
            state, live, probe, row = iterate(state, live, task, hyper)
            return (state, live, probe), row

        # The scan carries only the `live` part of the episodes and a probe of the observations.
        probe = jnp.zeros((config.probe, env.observation_size), jnp.float32)
        carry = state._replace(episodes=()), live, probe
        (state, live, probe), rows = jax.lax.scan(body, carry, length=config.iterations_per_chunk)
        if config.diagnostics:
            # The ranks are computed once a chunk because a decomposition is expensive.
            rows = in_last_row(rows, learning.ranks(state.params, probe))
        return strongly_typed(state._replace(episodes=live.state)), rows

    options = {**COMPILER_OPTIONS, **problem.options}
    return Trainer(init, chunk, config.chunks(tasks), (), "latest_return", options=options)
