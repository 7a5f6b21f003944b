"""Many copies of an environment side by side, with time limits, restarts and episode returns."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from continual_learning.envs.base import Environment, Task
from continual_learning.schema.names import Restart


class EpisodesState(NamedTuple):
    """The state that the next step reads; checkpoints keep it.

    Attributes:
      key: the key of the episodes of this task.
      env: the states of the environments, leaves [envs, …].
      length: int32 [envs], the number of steps of the current episode.
      total: float32 [envs], the sum of the rewards of the current episode.
      latest: float32 [envs], the return of the last episode that ended in an environment; NaN
        before the first.
      steps: int32 [], the number of steps since the task began.
    """

    key: jax.Array
    env: Any
    length: jax.Array
    total: jax.Array
    latest: jax.Array
    steps: jax.Array


class Live(NamedTuple):
    """A state with the arrays that are computed from it and needed to step the environments.

    Attributes:
      state: the state that checkpoints keep.
      first: the first state of every environment, to which it restarts; () if every episode has a
        new first state.
      first_observation: the observations of `first`, [envs, observation_size], or ().
      observation: float32 [envs, observation_size], the observations to act on next.
    """

    state: EpisodesState
    first: Any
    first_observation: Any
    observation: jax.Array


class Timestep(NamedTuple):
    """The outcome of a step of all environments; all arrays are [envs, …].

    Attributes:
      observation: float32 [envs, observation_size], the observations of the states reached, before
        any restart.
      reward: float32.
      terminated: bool, whether the state reached has no future.
      truncated: bool, whether the time limit ended the episode (never together with `terminated`).
      episode_return, episode_length: the return and the length of the episode up to this step.
      metrics: {name: float32}, the metrics of the environment.
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
        """Whether the episode ended, bool [envs]."""
        return self.terminated | self.truncated


@dataclasses.dataclass(frozen=True)
class Episodes:
    """Copies of an environment that restart by themselves.

    Attributes:
      env: the environment.
      count: the number of copies.
      length: the number of steps after which an episode is truncated.
      restart: "first" if every copy returns to the first state that it had in this task (as Brax's
        auto-reset does; a restart draws and computes nothing), "fresh" if every episode begins in
        a new first state.
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
        """Begin an episode in all environments."""
        return EpisodesState(
            key,
            self._reset(key, jnp.zeros((), jnp.int32), task),
            jnp.zeros(self.count, jnp.int32),
            jnp.zeros(self.count, jnp.float32),
            jnp.full(self.count, jnp.nan, jnp.float32),
            jnp.zeros((), jnp.int32),
        )

    def live(self, state: EpisodesState, task: Task, first: Any = None) -> Live:
        """Return the state with observations and first states, ready to run.

        Args:
          state: the state of the episodes of this task.
          task: the task of all environments.
          first: `begin(state.key, task).env`; None to compute it here.
        """
        observation = jax.vmap(self.env.observe, (0, None))(state.env, task)
        if self.restart == "fresh":
            return Live(state, (), (), observation)
        if first is None:
            first = self.begin(state.key, task).env
        seen = jax.vmap(self.env.observe, (0, None))(first, task)
        return Live(state, first, seen, observation)

    def step(self, live: Live, action: jax.Array, task: Task) -> tuple[Live, Timestep]:
        """Step all environments once, and restart those whose episode ended.

        Args:
          live: the environments before the step.
          action: float32 [envs, action_size]; int32 [envs] in a `DiscreteEnvironment`.
          task: the task of all environments.

        Returns:
          The environments after the step and any restarts, and the outcome of the step.
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
    """Select entries of two trees, whose leaves are [n, …].

    Args:
      where: bool [n].
      new: the tree from which entries are taken where `where` is true.
      old: the tree from which the other entries are taken.
    """

    def pick(new: jax.Array, old: jax.Array) -> jax.Array:
        return jnp.where(where.reshape(where.shape + (1,) * (new.ndim - where.ndim)), new, old)

    return jax.tree.map(pick, new, old)
