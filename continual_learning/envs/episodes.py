"""Many copies of an environment side by side, with time limits, restarts and episode returns."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from continual_learning.envs.base import Environment, Task
from continual_learning.schema.names import Restart


class EpisodesState(NamedTuple):
    """What the next step reads, for checkpoints.

    Attributes:
      key: of this task's episodes.
      env: state of every environment, leaves [envs, …].
      length: int32 [envs], steps into the episode.
      total: float32 [envs], its rewards so far.
      latest: float32 [envs], return of the episode that each ended last; NaN before the first.
      steps: int32 [], steps since the task began.
    """

    key: jax.Array
    env: Any
    length: jax.Array
    total: jax.Array
    latest: jax.Array
    steps: jax.Array


class Live(NamedTuple):
    """A state while it runs, with what can be made again from it.

    Attributes:
      state: what is kept.
      first: first state of every environment, to which it restarts; () if starts are fresh.
      first_observation: [envs, observation_size], or ().
      observation: float32 [envs, observation_size], what to act on next.
    """

    state: EpisodesState
    first: Any
    first_observation: Any
    observation: jax.Array


class Timestep(NamedTuple):
    """What a step of all environments led to; everything [envs, …].

    Attributes:
      observation: float32 [envs, observation_size], of the state reached, before any restart.
      reward: float32.
      terminated: bool, the state reached has no future.
      truncated: bool, the time limit ended the episode (never together with `terminated`).
      episode_return, episode_length: of the episode so far; of the whole one where it ended.
      metrics: {name: float32}, of the environment.
    """

    observation: jax.Array
    reward: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    episode_return: jax.Array
    episode_length: jax.Array
    metrics: dict[str, jax.Array]

    @property
    def ended(self) -> jax.Array:
        """Where an episode ended, bool [envs]."""
        return self.terminated | self.truncated


@dataclasses.dataclass(frozen=True)
class Episodes:
    """Copies of an environment that restart by themselves.

    Attributes:
      env: one of them.
      count: how many copies.
      length: steps after which an episode is truncated.
      restart: "first": every copy returns to the first state it had in this task (as Brax's
        auto-reset does; nothing is drawn or computed at a restart); "fresh": a new first state.
    """

    env: Environment
    count: int
    length: int = 1000
    restart: Restart = "first"

    def __post_init__(self):
        for name in ("count", "length"):
            if getattr(self, name) < 1:
                raise ValueError(f"Episodes: {name} must be at least 1, got {getattr(self, name)}.")
        if self.restart not in ("first", "fresh"):
            raise ValueError(f"Episodes: restart must be 'first' or 'fresh', got {self.restart!r}.")

    def begin(self, key: jax.Array, task: Task) -> EpisodesState:
        """All environments at the start of an episode."""
        return EpisodesState(
            key,
            self._reset(key, jnp.zeros((), jnp.int32), task),
            jnp.zeros(self.count, jnp.int32),
            jnp.zeros(self.count, jnp.float32),
            jnp.full(self.count, jnp.nan, jnp.float32),
            jnp.zeros((), jnp.int32),
        )

    def live(self, state: EpisodesState, task: Task, first: Any = None) -> Live:
        """The state with observations and first states, ready to run.

        Args:
          state: of this task's episodes.
          task: the same for all.
          first: `begin(state.key, task).env`, where it is at hand; it is made again if not.
        """
        observation = jax.vmap(self.env.observe, (0, None))(state.env, task)
        if self.restart == "fresh":
            return Live(state, (), (), observation)
        if first is None:
            first = self.begin(state.key, task).env
        seen = jax.vmap(self.env.observe, (0, None))(first, task)
        return Live(state, first, seen, observation)

    def step(self, live: Live, action: jax.Array, task: Task) -> tuple[Live, Timestep]:
        """One step of all environments; those whose episode ended have restarted.

        Args:
          live: where they are.
          action: float32 [envs, action_size]; int32 [envs] in a `DiscreteEnvironment`.
          task: the same for all.
        """
        state = live.state
        steps = state.steps + 1
        keys = jax.random.split(jax.random.fold_in(state.key, 2 * steps), self.count)
        env, reached = jax.vmap(self.env.step, (0, 0, 0, None))(keys, state.env, action, task)
        length, total = state.length + 1, state.total + reached.reward
        truncated = (length >= self.length) & ~reached.terminated
        timestep = Timestep(
            reached.observation,
            reached.reward,
            reached.terminated,
            truncated,
            total,
            length,
            reached.metrics,
        )
        if self.restart == "fresh":
            first = self._reset(state.key, 2 * steps + 1, task)
            seen = jax.vmap(self.env.observe, (0, None))(first, task)
        else:
            first, seen = live.first, live.first_observation
        ended = timestep.ended
        env, observation = select(ended, (first, seen), (env, reached.observation))
        kept = EpisodesState(
            state.key,
            env,
            jnp.where(ended, 0, length),
            jnp.where(ended, 0.0, total),
            jnp.where(ended, total, state.latest),
            steps,
        )
        return Live(kept, live.first, live.first_observation, observation), timestep

    def _reset(self, key: jax.Array, number: jax.Array, task: Task) -> Any:
        keys = jax.random.split(jax.random.fold_in(key, number), self.count)
        return jax.vmap(self.env.reset, (0, None))(keys, task)


def select(where: jax.Array, new: Any, old: Any) -> Any:
    """Leaf by leaf `new` where `where` (bool [n]), else `old`; leaves [n, …]."""

    def pick(new: jax.Array, old: jax.Array) -> jax.Array:
        return jnp.where(where.reshape(where.shape + (1,) * (new.ndim - where.ndim)), new, old)

    return jax.tree.map(pick, new, old)
