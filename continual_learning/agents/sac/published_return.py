"""The paper's bookkeeping of returns in its discrete SAC, whose evaluations disturb training."""

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
    """What the trainer keeps of a task.

    Attributes:
      running: float32 [envs], rewards in training since an episode last ended in training.
      returns: float32 [kept], what was logged last, as a ring.
      ended: int32 [], how many episodes have ended.
    """

    running: jax.Array
    returns: jax.Array
    ended: jax.Array


@dataclasses.dataclass(frozen=True)
class PublishedReturn:
    """Evaluations that play on the training environments, and the returns that are logged then.

    Every `every` steps the published trainer (`trainers/discrete_sac_trainer.py`) restarts all
    environments in training and plays deterministic episodes in them, until `until` have ended.
    Training goes on wherever that left the environments, with the observation from before, and
    steps that the evaluation made count towards the time limit. The sum of an episode's rewards
    goes on as if nothing had happened. So what is logged adds up parts of several episodes, and
    fewer of them are cut by the time limit.

    Attributes:
      episodes: the training environments.
      every: steps of all environments between two evaluations.
      until: how many episodes end in an evaluation, in whichever environments.
      kept: a return that is logged is the mean of so many.
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
        """Play an evaluation, if one is due before the next step, and return where it ends.

        Args:
          live: the environments in training.
          act: deterministic; uses nothing traced but its arguments.
          params: of the policy.
          key: of the seed; the episodes depend on it and on the steps since the task began.
          task: the same for all environments.
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
