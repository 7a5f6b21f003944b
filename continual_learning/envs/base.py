"""The interface of an environment: pure functions of one environment, which callers vmap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import jax

Task = Mapping[str, jax.Array]
"""The parameters of a task by name, such as {"friction": float32 []}."""


class Transition(NamedTuple):
    """The outcome of a step.

    Attributes:
      observation: float32 [observation_size], the observation of the state reached, before any
        restart.
      reward: float32 [].
      terminated: bool [], whether the state reached has no future. The environment itself knows
        no time limit.
      metrics: {name: float32 []}, further numbers to report, such as {"diverged": 0 or 1}. The
        names are the same in every step.
    """

    observation: jax.Array
    reward: jax.Array
    terminated: jax.Array
    metrics: dict[str, jax.Array]


class Environment(Protocol):
    """An environment whose tasks differ only by traced numbers, so that nothing recompiles.

    The state is a pytree of arrays that holds only what the next step reads, because scans carry
    it and checkpoints store it.

    Attributes:
      observation_size: the number of entries of an observation.
      action_size: the number of entries of an action.
      parameters: the task parameters that the environment knows, with the values they have unless
        a stream changes them.
    """

    @property
    def observation_size(self) -> int:
        """The number of entries of an observation."""
        ...

    @property
    def action_size(self) -> int:
        """The number of entries of an action."""
        ...

    @property
    def parameters(self) -> Mapping[str, float]:
        """The task parameters that the environment knows, with their usual values."""
        ...

    def reset(self, key: jax.Array, task: Task) -> Any:
        """Return the first state of an episode."""
        ...

    def observe(self, state: Any, task: Task) -> jax.Array:
        """Return the observation of a state, [observation_size]."""
        ...

    def step(
        self, key: jax.Array, state: Any, action: jax.Array, task: Task
    ) -> tuple[Any, Transition]:
        """Return the next state and the outcome of the step.

        Args:
          key: the key for everything random in the step.
          state: the state of one environment.
          action: float32 [action_size]; int32 [] in a `DiscreteEnvironment`.
          task: a value for every name in `parameters`.
        """
        ...


class DiscreteEnvironment(Environment, Protocol):
    """An environment with a few actions: `step` takes the number of one of them, int32 [].

    Its `action_size` is 1, and its observations are flattened boards.

    Attributes:
      actions: the number of actions.
      observation_shape: (height, width, channels), for networks that read a board.
      binary: whether observations are zeros and ones, so that they can be stored as bits.
    """

    @property
    def actions(self) -> int:
        """The number of actions."""
        ...

    @property
    def observation_shape(self) -> tuple[int, int, int]:
        """The shape of the board: (height, width, channels)."""
        ...

    @property
    def binary(self) -> bool:
        """Whether observations are zeros and ones."""
        ...
