"""The parts that all games share: a board of 10 × 10 cells, actions, the interface of a game."""

from __future__ import annotations

from typing import Any, Protocol

import jax
import jax.numpy as jnp

SIZE = 10
UNIFORMS = 8  # numbers in [0, 1) that decide every random event in a step of any game

NOTHING, LEFT, UP, RIGHT, DOWN, FIRE = range(6)
ACTIONS = ("n", "l", "u", "r", "d", "f")


class Game(Protocol):
    """A game: a module of pure functions, which separates its rules from its random numbers.

    Every game has its own named tuples `State` and `Draws`; `Draws` has all random events.

    Attributes:
      CHANNELS: the names of the channels of an observation, in order.
      MINIMAL: the actions that have an effect.
    """

    CHANNELS: tuple[str, ...]
    MINIMAL: tuple[int, ...]

    def draw(self, uniform: jax.Array) -> Any:
        """Turn UNIFORMS numbers in [0, 1) into the game's `Draws`."""
        ...

    def start(self, draws: Any) -> Any:
        """Return the first `State` of an episode."""
        ...

    def step(
        self, draws: Any, state: Any, action: jax.Array, ramping: bool
    ) -> tuple[Any, jax.Array, jax.Array]:
        """Step the game once.

        Args:
          draws: the random events of the step.
          state: the state before it.
          action: int32 [], an index into `ACTIONS`.
          ramping: whether the game becomes harder while it is played.

        Returns:
          The next state, the reward int32 [], and whether the game is over bool [].
        """
        ...

    def observe(self, state: Any) -> jax.Array:
        """Return the observation, bool [10, 10, channels].

        Its rows are counted from the top, its columns from the left.
        """
        ...


def at(row: jax.Array | int, column: jax.Array | int) -> jax.Array:
    """Return a board, bool [10, 10], that is true in one cell; in none if that is off the board."""
    line = jnp.arange(SIZE)
    return (line[:, None] == row) & (line[None, :] == column)


def towards(action: jax.Array, less: int, more: int) -> jax.Array:
    """Return the direction of an action, -1, 0 or 1.

    Args:
      action: int32 [].
      less: the action whose direction is -1.
      more: the action whose direction is 1.
    """
    return (action == more).astype(jnp.int32) - (action == less).astype(jnp.int32)


def shift(board: jax.Array, cells: int, axis: int) -> jax.Array:
    """Move all pieces of a board; those that leave it disappear.

    Args:
      board: the board.
      cells: by how many cells the pieces move.
      axis: 0 to move along a column, 1 to move along a row.
    """
    length = board.shape[axis]
    before, after = max(cells, 0), max(-cells, 0)
    kept = jax.lax.slice_in_dim(board, after, length - before, axis=axis)
    padding = [(0, 0)] * board.ndim
    padding[axis] = (before, after)
    return jnp.pad(kept, padding)


def number(value: int) -> jax.Array:
    """Convert a number to an entry of a state, int32 []."""
    return jnp.asarray(value, jnp.int32)


def below(uniform: jax.Array, count: jax.Array | int) -> jax.Array:
    """Turn a number in [0, 1) into a whole number 0 … count - 1; all are equally likely."""
    return jnp.minimum((uniform * count).astype(jnp.int32), count - 1)
