"""Environments on a stream of tasks, which begin a task or continue it."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from continual_learning.envs.base import Task
from continual_learning.envs.episodes import Episodes, EpisodesState, Live
from continual_learning.envs.streams import TaskStream

# The uses of a seed's key. All learners have the same ones, so that they meet the same tasks.
NETWORK, STREAM, EPISODES, ACTIONS, BATCHES, PROBE, EVALUATION, DISTURBANCE = range(8)


@dataclasses.dataclass(frozen=True)
class Tasks:
    """Environments that meet the tasks of a stream one after the other.

    Attributes:
      episodes: the environments, side by side.
      stream: the stream of tasks.
    """

    episodes: Episodes
    stream: TaskStream

    def start(self, key: jax.Array) -> EpisodesState:
        """Return episodes in the right shapes for the state before the first task.

        The first task begins the episodes anew, and reads only from this state that no episode has
        ended yet.
        """

        def blank(x: jax.ShapeDtypeStruct) -> jax.Array:
            if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
                return jnp.broadcast_to(key, x.shape)
            return jnp.zeros(x.shape, x.dtype)

        shapes = jax.eval_shape(lambda: self._begin(key, jnp.zeros((), jnp.int32))[1])
        unread: EpisodesState = jax.tree.map(blank, shapes)
        return unread._replace(latest=jnp.full_like(unread.latest, jnp.nan))

    def task(self, key: jax.Array, number: jax.Array) -> Task:
        """Return task `number` [] of the seed with this key."""
        return self.stream.task(jax.random.fold_in(key, STREAM), number)

    def enter(
        self, key: jax.Array, number: jax.Array, begins: jax.Array, state: EpisodesState
    ) -> tuple[Task, Live]:
        """Return a task of a seed, and its environments ready to run.

        Args:
          key: the key of the seed.
          number: int32 [], the number of the task.
          begins: bool [], whether all environments begin an episode; otherwise they continue.
          state: the state of the environments before.
        """
        task, fresh = self._begin(key, number)
        # The returns of the last episodes stay until other episodes have ended.
        fresh = fresh._replace(latest=state.latest)
        kept = jax.tree.map(lambda new, old: jnp.where(begins, new, old), fresh, state)
        return task, self.episodes.live(kept, task, first=fresh.env)

    def _begin(self, key: jax.Array, number: jax.Array) -> tuple[Task, EpisodesState]:
        task = self.task(key, number)
        starts = jax.random.fold_in(jax.random.fold_in(key, EPISODES), number)
        return task, self.episodes.begin(starts, task)
