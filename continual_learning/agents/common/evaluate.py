"""Evaluation of a policy on the tasks met so far, in deterministic episodes of their own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from continual_learning.agents.common.statistics import Columns
from continual_learning.agents.common.tasks import EVALUATION, Tasks
from continual_learning.agents.common.trainer import strongly_typed
from continual_learning.envs.base import Task
from continual_learning.envs.episodes import Episodes
from continual_learning.optim.branch import when

Act = Callable[[Any, jax.Array], jax.Array]
"""A function (parameters of the policy, observations [batch, size]) -> actions [batch, …]."""


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Episodes on every distinct task of a run, side by side.

    Attributes:
      tasks: the environments and the stream, without traced values. Their time limit also holds in
        an evaluation.
      count: the number of tasks of the run; equal tasks count as one (`TaskStream.distinct`).
      episodes: the number of episodes of a task.
    """

    tasks: Tasks
    count: int
    episodes: int

    def if_due(
        self,
        due: jax.Array,
        act: Act,
        params: Any,
        key: jax.Array,
        steps: jax.Array,
        now: jax.Array,
    ) -> Columns:
        """Measure the returns on the tasks met so far if an evaluation is due.

        Args:
          due: bool [], whether an evaluation is due; if not, nothing is computed.
          act: a deterministic policy, which uses no traced values except its arguments.
          params: the parameters of the policy.
          key: the key of the seed.
          steps: int32 [], the number of steps so far, on which the episodes depend.
          now: int32 [], the number of the task in training.

        Returns:
          Columns float32 []: "eval_NAME" for every distinct task, NaN if it is not met yet, and
          "eval_seen", the mean over the tasks met. All are NaN if no evaluation is due.
        """
        names = self.tasks.stream.distinct(self.count)
        unsaid = {f"eval_{name}": jnp.full((), jnp.nan) for name in ("seen", *names)}

        def evaluated(_: Columns, args: Any) -> Columns:
            params, key, steps, now = args
            numbers = jnp.array([*names.values()], jnp.int32)
            met = numbers <= now
            task = jax.vmap(self.tasks.task, (None, 0))(key, numbers)
            start = jax.random.fold_in(jax.random.fold_in(key, EVALUATION), steps)
            starts = jax.vmap(jax.random.fold_in, (None, 0))(start, numbers)
            copies = dataclasses.replace(self.tasks.episodes, count=self.episodes, restart="first")

            def play(task: Task, key: jax.Array, met: jax.Array) -> jax.Array:
                return first_returns(copies, lambda seen: act(params, seen), key, task, met)

            returns = jnp.mean(jax.vmap(play)(task, starts, met), axis=1)
            of_each = {f"eval_{name}": returns[i] for i, name in enumerate(names)}
            return {"eval_seen": jnp.mean(returns, where=met), **of_each}

        return when(due, evaluated, unsaid, (params, key, steps, now))


def first_returns(
    episodes: Episodes,
    act: Callable[[jax.Array], jax.Array],
    key: jax.Array,
    task: Task,
    wanted: jax.Array,
) -> jax.Array:
    """Return the undiscounted return of the first episode of every environment, float32 [envs].

    The loop ends with the longest of these episodes.

    Args:
      episodes: the environments.
      act: a function of observations [envs, observation_size] -> actions [envs, …].
      key: the key of these episodes.
      task: the task of all environments.
      wanted: bool [], whether to play; if not, all returns are NaN.
    """
    begun = episodes.begin(key, task)
    live = strongly_typed(episodes.live(begun, task, first=begun.env))

    def step(carry: Any) -> Any:
        live, playing, returns = carry
        live, reached = episodes.step(live, act(live.observation), task)
        returns = jnp.where(playing & reached.ended, reached.episode_return, returns)
        return strongly_typed(live), playing & ~reached.ended, returns

    playing = jnp.broadcast_to(wanted, episodes.count)
    unknown = jnp.full(episodes.count, jnp.nan)
    return jax.lax.while_loop(lambda carry: carry[1].any(), step, (live, playing, unknown))[2]
