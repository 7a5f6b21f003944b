"""The returns that the paper's discrete SAC logs, whose evaluations disturb training."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from continual_learning.agents.common.evaluate import Act
from continual_learning.agents.common.trainer import strongly_typed
from continual_learning.envs.base import Task
from continual_learning.envs.episodes import Episodes, Live, Timestep
from continual_learning.optim.branch import when


class Sums(NamedTuple):
    """The sums that the trainer keeps in a task.

    Attributes:
      running: float32 [envs], the sum of the training rewards since an episode last ended in
        training.
      returns: float32 [kept], the returns logged last, as a ring.
      ended: int32 [], the number of episodes that have ended.
    """

    running: jax.Array
    returns: jax.Array
    ended: jax.Array


@dataclasses.dataclass(frozen=True)
class PublishedReturn:
    """Evaluations in the training environments, and the returns that are logged as a consequence.

    Every `every` steps, the published trainer (`trainers/discrete_sac_trainer.py`) restarts all
    environments in training and plays deterministic episodes in them, until `until` episodes have
    ended. Training then continues from the states that the evaluation reached, but with the
    observations from before it, and the steps of the evaluation count toward the time limit. The
    sums of training rewards continue as well. The logged returns therefore add up parts of several
    episodes, and the time limit cuts off fewer of them.

    Attributes:
      episodes: the training environments.
      every: the number of environment steps between two evaluations.
      until: the number of episodes after which an evaluation ends, in any environments.
      kept: the number of returns whose mean is logged.
    """

    episodes: Episodes
    every: int = 10_000
    until: int = 10
    kept: int = 100

    def start(self) -> Sums:
        """Return the sums at the beginning of a task."""
        count = self.episodes.count
        return Sums(
            jnp.zeros(count, jnp.float32),
            jnp.zeros(self.kept, jnp.float32),
            jnp.zeros((), jnp.int32),
        )

    def evaluate_if_due(
        self, live: Live, act: Act, params: Any, key: jax.Array, task: Task
    ) -> Live:
        """Play an evaluation if one is due before the next step; return the environments after it.

        Args:
          live: the environments in training.
          act: a deterministic policy, which uses no traced values except its arguments.
          params: the parameters of the policy.
          key: the key of the seed; the episodes depend on it and on the steps since the task began.
          task: the task of all environments.
        """
        steps = live.state.steps
        due = (steps > 0) & (steps % -(-self.every // self.episodes.count) == 0)

        def evaluated(place: Any, args: Any) -> Any:
            params, key, task = args
            begun = self.episodes.begin(key, task)
            now = strongly_typed(self.episodes.live(begun, task, first=begun.env))

            def step(carry: Any) -> Any:
                now, ended = carry
                now, reached = self.episodes.step(now, act(params, now.observation), task)
                return strongly_typed(now), ended + jnp.sum(reached.ended, dtype=jnp.int32)

            def unfinished(carry: Any) -> jax.Array:
                return carry[1] < self.until

            after, _ = jax.lax.while_loop(unfinished, step, (now, jnp.zeros((), jnp.int32)))
            return after.state.env, after.state.length, after.state.total

        place = (live.state.env, live.state.length, live.state.total)
        args = (params, jax.random.fold_in(key, steps), task)
        env, length, total = when(due, evaluated, place, args)
        return live._replace(state=live.state._replace(env=env, length=length, total=total))

    def add(self, sums: Sums, reached: Timestep) -> Sums:
        """Add a step in training."""
        running = sums.running + reached.reward
        ended = reached.ended
        place = (sums.ended + jnp.cumsum(ended) - 1) % self.kept
        returns = sums.returns.at[jnp.where(ended, place, self.kept)].set(running, mode="drop")
        number = sums.ended + jnp.sum(ended, dtype=jnp.int32)
        return Sums(jnp.where(ended, 0.0, running), returns, number)

    def value(self, sums: Sums) -> jax.Array:
        """Return the mean of the returns logged last, float32 []; NaN before the first."""
        known = jnp.arange(self.kept) < sums.ended
        count = jnp.minimum(sums.ended, self.kept)
        total = jnp.sum(jnp.where(known, sums.returns, 0.0))
        return jnp.where(count == 0, jnp.nan, total / jnp.maximum(count, 1))
