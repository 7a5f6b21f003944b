"""How well a policy does on the tasks met so far: deterministic episodes, apart from training."""

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
"""(parameters of the policy, observations [batch, observation_size]) -> actions [batch, …]."""


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Episodes on every distinct task of a run, side by side.

    Attributes:
      tasks: environments and stream, which hold nothing traced; the time limit counts here as well.
      count: tasks of the run; those that are equal are one (`TaskStream.distinct`).
      episodes: of each task.
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
        """Returns on the tasks met so far, if an evaluation is `due`; else nothing is computed.

        Args:
          due: bool [].
          act: deterministic; uses nothing traced but its arguments.
          params: of the policy.
          key: the seed's.
          steps: int32 [], which the episodes depend on.
          now: int32 [], number of the task in training.

        Returns:
          All float32 []: "eval_NAME" of every distinct task, NaN if it is not met yet; "eval_seen",
          the mean of those that are. All are NaN if no evaluation is due.
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
    """The undiscounted return of the first episode of every environment, float32 [envs].

    It ends with the longest of them.

    Args:
      episodes: the environments.
      act: observations [envs, observation_size] -> actions [envs, …].
      key: of these episodes.
      task: the same for all.
      wanted: bool []; if not, nothing is played and all returns are NaN.
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
