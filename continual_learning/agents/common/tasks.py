"""Environments on a stream of tasks: where a task begins, and where it goes on."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from continual_learning.envs.base import Task
from continual_learning.envs.episodes import Episodes, EpisodesState, Live
from continual_learning.envs.streams import TaskStream

# What a seed's key is used for; the same for all learners, which so meet the same tasks.
NETWORK, STREAM, EPISODES, ACTIONS, BATCHES, PROBE, EVALUATION, DISTURBANCE = range(8)


@dataclasses.dataclass(frozen=True)
class Tasks:
    """One task after the other.

    Attributes:
      episodes: the environments, side by side.
      stream: what changes from task to task.
    """

    episodes: Episodes
    stream: TaskStream

    def start(self, key: jax.Array) -> EpisodesState:
        """For the state before the first task, of the right shapes.

        The first task begins the episodes: of what is here, only that none has ended is read.
        """

        def blank(x: jax.ShapeDtypeStruct) -> jax.Array:
            if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
                return jnp.broadcast_to(key, x.shape)
            return jnp.zeros(x.shape, x.dtype)

        shapes = jax.eval_shape(lambda: self._begin(key, jnp.zeros((), jnp.int32))[1])
        unread: EpisodesState = jax.tree.map(blank, shapes)
        return unread._replace(latest=jnp.full_like(unread.latest, jnp.nan))

    def task(self, key: jax.Array, number: jax.Array) -> Task:
        """Task `number` [] of the seed with this key."""
        return self.stream.task(jax.random.fold_in(key, STREAM), number)

    def enter(
        self, key: jax.Array, number: jax.Array, begins: jax.Array, state: EpisodesState
    ) -> tuple[Task, Live]:
        """Task `number` [] of a seed, ready to run.

        Args:
          key: the seed's.
          number: of the task.
          begins: bool [], whether all environments start an episode; else they go on.
          state: where they were.
        """
        task, fresh = self._begin(key, number)
        # The returns of the episodes that ended last stay until others have ended.
        fresh = fresh._replace(latest=state.latest)
        kept = jax.tree.map(lambda new, old: jnp.where(begins, new, old), fresh, state)
        return task, self.episodes.live(kept, task, first=fresh.env)

    def _begin(self, key: jax.Array, number: jax.Array) -> tuple[Task, EpisodesState]:
        task = self.task(key, number)
        starts = jax.random.fold_in(jax.random.fold_in(key, EPISODES), number)
        return task, self.episodes.begin(starts, task)
