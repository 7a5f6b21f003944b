"""Environments whose every number is known."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from continual_learning.envs.base import Transition


@dataclasses.dataclass(frozen=True)
class Counter:
    """Counts its steps: state and observation are [count], the reward is the count.

    It terminates at `end`, starts at the task's `start` (plus noise with `random`), and reports
    the action as a metric.
    """

    end: int = 10**6
    random: bool = False

    @property
    def observation_size(self) -> int:
        return 1

    @property
    def action_size(self) -> int:
        return 1

    @property
    def parameters(self) -> dict[str, float]:
        return {"start": 0.0, "unused": 3.0}

    def reset(self, key: jax.Array, task: Any) -> jax.Array:
        noise = jax.random.uniform(key) if self.random else 0.0
        return (task["start"] + noise)[None]

    def observe(self, state: jax.Array, task: Any) -> jax.Array:
        return state

    def step(self, key: jax.Array, state: jax.Array, action: jax.Array, task: Any) -> Any:
        state = state + 1.0
        return state, Transition(state, state[0], state[0] >= self.end, {"action": action[0]})


def usual(env: Any, **changes: float) -> dict[str, jax.Array]:
    """A task with the environment's own values but for `changes`."""
    return {k: jnp.float32(v) for k, v in {**env.parameters, **changes}.items()}
