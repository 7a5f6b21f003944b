"""Rollouts: the steps of a policy in many environments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from continual_learning.agents.common.statistics import statistics, tally
from continual_learning.envs.base import Task
from continual_learning.envs.episodes import Episodes, Live

Act = Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array, jax.Array]]
"""(number of the step int32 [], observations [envs, observation_size]) -> (actions [envs, …], these
actions as the rollout keeps them [envs, size], their log probabilities [envs])."""


class Rollout(NamedTuple):
    """The observations, actions and rewards of T steps, time-major.

    Attributes:
      observation: [T, envs, observation_size], the observations that the policy acted on.
      action: [T, envs, size], the actions as the policy keeps them.
      log_prob: [T, envs], the log probabilities of the actions.
      reward: [T, envs], the rewards of the environment.
      terminated: bool [T, envs].
      truncated: bool [T, envs].
      reached: [T, envs, observation_size], the observations that the steps reached, before any
        restart; () if they are not kept.
    """

    observation: jax.Array
    action: jax.Array
    log_prob: jax.Array
    reward: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    reached: Any


def collect(
    episodes: Episodes,
    live: Live,
    task: Task,
    act: Act,
    *,
    steps: int,
    keep_reached: bool,
) -> tuple[Live, Rollout, dict[str, jax.Array]]:
    """Act in the environments for `steps` steps.

    Args:
      episodes: the environments.
      live: the state of the environments.
      task: the task, the same for all environments.
      act: the policy.
      steps: T.
      keep_reached: whether the rollout also keeps the observations that the steps reached.

    Returns:
      The state of the environments now, the rollout, and its `statistics`.
    """

    def step(live: Live, number: jax.Array) -> tuple[Live, Any]:
        action, kept, log_prob = act(number, live.observation)
        after, reached = episodes.step(live, action, task)
        seen = Rollout(
            live.observation,
            kept,
            log_prob,
            reached.reward,
            reached.terminated,
            reached.truncated,
            reached.observation if keep_reached else (),
        )
        return after, (seen, tally(reached))

    live, (rollout, tallies) = jax.lax.scan(step, live, jnp.arange(steps))
    return live, rollout, statistics(live, tallies, rollout.reward)
