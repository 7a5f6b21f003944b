"""Actions that act later, and observations that arrive later."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from continual_learning.envs.base import Environment, Task, Transition


class DelayedState(NamedTuple):
    """An environment, and what is on its way.

    Attributes:
      env: state of the environment.
      actions: float32 [action_delay, action_size], the last ones, newest first.
      observations: float32 [observation_delay, observation_size], the last ones, newest first.
    """

    env: Any
    actions: jax.Array
    observations: jax.Array


@dataclasses.dataclass(frozen=True)
class Delayed:
    """An environment with delays of k steps, where k may change between tasks.

    Two more task parameters: with `action_delay` k, the action of step t acts in step t + k, and
    zeros act until the first one does; with `observation_delay` k, what is seen at step t is the
    observation of step t − k, or the first one. Rewards and ends of episodes are not delayed.

    Attributes:
      env: what is delayed.
      action_delay: the longest delay of actions.
      observation_delay: the longest delay of observations.
    """

    env: Environment
    action_delay: int = 0
    observation_delay: int = 0

    def __post_init__(self):
        for name in ("action_delay", "observation_delay"):
            if getattr(self, name) < 0:
                raise ValueError(
                    f"Delayed: {name} must not be negative, got {getattr(self, name)}."
                )

    @property
    def observation_size(self) -> int:
        """As without delays."""
        return self.env.observation_size

    @property
    def action_size(self) -> int:
        """As without delays."""
        return self.env.action_size

    @property
    def parameters(self) -> Mapping[str, float]:
        """Those of the environment, and the delays."""
        return {**self.env.parameters, "action_delay": 0, "observation_delay": 0}

    def reset(self, key: jax.Array, task: Task) -> DelayedState:
        """A first state, seen for as long as no later one has arrived."""
        state = self.env.reset(key, task)
        first = self.env.observe(state, task)
        return DelayedState(
            state,
            jnp.zeros((self.action_delay, self.action_size)),
            jnp.tile(first[None], (self.observation_delay, 1)),
        )

    def observe(self, state: DelayedState, task: Task) -> jax.Array:
        """What arrives now."""
        return _delayed(
            self.env.observe(state.env, task), state.observations, task["observation_delay"]
        )

    def step(
        self, key: jax.Array, state: DelayedState, action: jax.Array, task: Task
    ) -> tuple[DelayedState, Transition]:
        """A step with the action that arrives now."""
        seen = self.env.observe(state.env, task)
        acting = _delayed(action, state.actions, task["action_delay"])
        env, reached = self.env.step(key, state.env, acting, task)
        after = DelayedState(env, _pushed(action, state.actions), _pushed(seen, state.observations))
        arrives = _delayed(reached.observation, after.observations, task["observation_delay"])
        return after, reached._replace(observation=arrives)


def _delayed(newest: jax.Array, before: jax.Array, delay: jax.Array) -> jax.Array:
    """The value of `delay` steps ago; the oldest there is, if that is less."""
    index = jnp.clip(jnp.round(delay).astype(jnp.int32), 0, len(before))
    return jnp.concatenate([newest[None], before])[index]


def _pushed(newest: jax.Array, before: jax.Array) -> jax.Array:
    return jnp.concatenate([newest[None], before])[: len(before)]
