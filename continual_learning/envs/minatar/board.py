"""What the games share: a board of 10 × 10 cells, actions, and what a game is."""

from __future__ import annotations

from typing import Any, Protocol

import jax
import jax.numpy as jnp

SIZE = 10
UNIFORMS = 8  # numbers in [0, 1) that decide all that is random in a step of any game

NOTHING, LEFT, UP, RIGHT, DOWN, FIRE = range(6)
ACTIONS = ("n", "l", "u", "r", "d", "f")


class Game(Protocol):
    """A game: a module of pure functions, whose rules are apart from its chances.

    `State` and `Draws` are named tuples of the game's own; `Draws` is what may turn out randomly.

    Attributes:
      CHANNELS: names of the channels of an observation, in order.
      MINIMAL: the actions that do something.
    """

    CHANNELS: tuple[str, ...]
    MINIMAL: tuple[int, ...]

    def draw(self, uniform: jax.Array) -> Any:
        """The `Draws` that UNIFORMS numbers in [0, 1) stand for."""
        ...

    def start(self, draws: Any) -> Any:
        """A first `State`."""
        ...

    def step(
        self, draws: Any, state: Any, action: jax.Array, ramping: bool
    ) -> tuple[Any, jax.Array, jax.Array]:
        """(next state, reward int32 [], whether the game is over bool [])."""
        ...

    def observe(self, state: Any) -> jax.Array:
        """Bool [10, 10, channels]: rows from the top, columns from the left."""
        ...


def at(row: jax.Array | int, column: jax.Array | int) -> jax.Array:
    """Bool [10, 10], true in one cell; in none, if it is off the board."""
    line = jnp.arange(SIZE)
    return (line[:, None] == row) & (line[None, :] == column)


def towards(action: jax.Array, less: int, more: int) -> jax.Array:
    """-1, 0 or 1: which way an action goes, between two opposite ones."""
    return (action == more).astype(jnp.int32) - (action == less).astype(jnp.int32)


def shift(board: jax.Array, cells: int, axis: int) -> jax.Array:
    """The board with all its pieces moved, those that leave it gone and no new ones."""
    length = board.shape[axis]
    before, after = max(cells, 0), max(-cells, 0)
    kept = jax.lax.slice_in_dim(board, after, length - before, axis=axis)
    padding = [(0, 0)] * board.ndim
    padding[axis] = (before, after)
    return jnp.pad(kept, padding)


def number(value: int) -> jax.Array:
    """An entry of a state, int32 []."""
    return jnp.asarray(value, jnp.int32)


def below(uniform: jax.Array, count: jax.Array | int) -> jax.Array:
    """A whole number of 0 … count - 1, all equally likely, from a number in [0, 1)."""
    return jnp.minimum((uniform * count).astype(jnp.int32), count - 1)
