"""What an environment is: pure functions of one environment, which callers vmap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import jax

Task = Mapping[str, jax.Array]
"""What differs between tasks, by name: {"friction": float32 []}."""


class Transition(NamedTuple):
    """What a step led to.

    Attributes:
      observation: float32 [observation_size], of the state reached, before any restart.
      reward: float32 [].
      terminated: bool []. The state reached has no future; a time limit is not the
        environment's affair.
      metrics: {name: float32 []}, what else to report, such as {"diverged": 0 or 1}; always
        the same names.
    """

    observation: jax.Array
    reward: jax.Array
    terminated: jax.Array
    metrics: dict[str, jax.Array]


class Environment(Protocol):
    """An environment whose tasks differ only by traced numbers, so that nothing recompiles.

    The state is a pytree of arrays that holds what the next step reads and nothing else: it is
    carried through scans and written to checkpoints.

    Attributes:
      observation_size: entries of an observation.
      action_size: entries of an action.
      parameters: the task parameters that it knows, with the values they have unless a stream
        changes them.
    """

    @property
    def observation_size(self) -> int:
        """Entries of an observation."""
        ...

    @property
    def action_size(self) -> int:
        """Entries of an action."""
        ...

    @property
    def parameters(self) -> Mapping[str, float]:
        """The task parameters that it knows, with their usual values."""
        ...

    def reset(self, key: jax.Array, task: Task) -> Any:
        """A first state."""
        ...

    def observe(self, state: Any, task: Task) -> jax.Array:
        """What the agent sees of a state, [observation_size]."""
        ...

    def step(
        self, key: jax.Array, state: Any, action: jax.Array, task: Task
    ) -> tuple[Any, Transition]:
        """The next state, and what the step led to.

        Args:
          key: for what is random in a step.
          state: of one environment.
          action: float32 [action_size]; int32 [] in a `DiscreteEnvironment`.
          task: every name in `parameters`.
        """
        ...


class DiscreteEnvironment(Environment, Protocol):
    """An environment with a few actions to choose from: `step` takes the number of one, int32 [].

    Its `action_size` is 1, and its observations are a board, flat.

    Attributes:
      actions: how many there are.
      observation_shape: (height, width, channels), for networks that look at a board.
      binary: observations are zeros and ones, so that they can be kept as bits.
    """

    @property
    def actions(self) -> int:
        """How many actions there are."""
        ...

    @property
    def observation_shape(self) -> tuple[int, int, int]:
        """(height, width, channels)."""
        ...

    @property
    def binary(self) -> bool:
        """Whether observations are zeros and ones."""
        ...
