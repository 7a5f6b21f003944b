"""Acting in many environments for some steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from continual_learning.envs.base import Task
from continual_learning.envs.episodes import Episodes, Live

Act = Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]
"""(key, observations [envs, observation_size]) -> (actions [envs, action_size], their log
probabilities [envs])."""


class Rollout(NamedTuple):
    """What was seen, done and got; time-major.

    Attributes:
      observation: [T, envs, observation_size], acted on.
      action: [T, envs, action_size].
      log_prob: [T, envs], of the action.
      reward: [T, envs], as the environment gave it.
      terminated: bool [T, envs].
      truncated: bool [T, envs].
      reached: [T, envs, observation_size], what was reached, before any restart; () if not kept.
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
    key: jax.Array,
    *,
    steps: int,
    keep_reached: bool,
) -> tuple[Live, Rollout, dict[str, jax.Array]]:
    """Acts for `steps` steps.

    Args:
      episodes: the environments.
      live: where they are.
      task: the same for all.
      act: the policy.
      key: for its actions.
      steps: T.
      keep_reached: whether the observations reached are kept too.

    Returns:
      Where the environments are now, the rollout, and its statistics, all []:
      "episodes_ended"; "episode_return" and "episode_length", their means over these episodes, NaN
      if there are none; "latest_return", the mean over environments of the return of the episode
      that each ended last, NaN if none has; "running_return", the mean over environments of the
      rewards so far of the episode that each is in after the last step (0 where it has just
      begun); "reward", the mean of all rewards; and every metric of the environment, summed over
      steps and environments.
    """

    def step(live: Live, number: jax.Array) -> tuple[Live, Any]:
        action, log_prob = act(jax.random.fold_in(key, number), live.observation)
        after, reached = episodes.step(live, action, task)
        seen = Rollout(
            live.observation,
            action,
            log_prob,
            reached.reward,
            reached.terminated,
            reached.truncated,
            reached.observation if keep_reached else (),
        )
        # Reduced at once: arrays [T, envs] of what is only summed would cost memory.
        sums = {
            "episodes_ended": jnp.sum(reached.ended, dtype=jnp.int32),
            "episode_return": jnp.sum(jnp.where(reached.ended, reached.episode_return, 0)),
            "episode_length": jnp.sum(jnp.where(reached.ended, reached.episode_length, 0)),
        }
        return after, (seen, sums, jax.tree.map(jnp.sum, reached.metrics))

    live, (rollout, sums, metrics) = jax.lax.scan(step, live, jnp.arange(steps))
    sums, metrics = jax.tree.map(jnp.sum, (sums, metrics))
    ended = sums["episodes_ended"]
    statistics = {
        "episodes_ended": ended,
        "episode_return": _over(sums["episode_return"], ended),
        "episode_length": _over(sums["episode_length"], ended),
        "latest_return": jnp.nanmean(live.state.latest),
        "running_return": jnp.mean(live.state.total),
        "reward": jnp.mean(rollout.reward),
    }
    return live, rollout, disjoint(statistics, metrics)


def disjoint(*tables: dict[str, jax.Array]) -> dict[str, jax.Array]:
    """All columns of several tables, whose names must differ."""
    columns: dict[str, jax.Array] = {}
    for table in tables:
        for name, values in table.items():
            if name in columns:
                raise ValueError(
                    f"There is a column {name!r} already: rename that metric or task parameter of "
                    "the environment."
                )
            columns[name] = values
    return columns


def _over(total: jax.Array, count: jax.Array) -> jax.Array:
    return jnp.where(count == 0, jnp.nan, total / jnp.maximum(count, 1))
