"""Breakout: the player keeps a ball in play with a paddle and breaks bricks.

The ball moves along diagonals; walls, bricks and the paddle on the bottom row reflect it. There
are three rows of ten bricks, and a broken brick is worth 1. When all are broken, three new rows
appear the next time that the ball reaches the bottom row. A ball that has just broken a brick
breaks no other one before it has been in a free cell. The game is over when the ball reaches the
bottom row and the paddle is not there. Difficulty does not ramp.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from continual_learning.envs.minatar.board import LEFT, NOTHING, RIGHT, SIZE, at, number, towards

CHANNELS = ("paddle", "ball", "trail", "brick")
MINIMAL = (NOTHING, LEFT, RIGHT)

BOTTOM = SIZE - 1


class State(NamedTuple):
    """The state of a game.

    Attributes:
      paddle: int32, the column of the paddle.
      x, y: int32, the ball's column and row.
      right, down: bool, whether the ball moves to the right, whether it moves down.
      last_x, last_y: int32, the ball's column and row a step before.
      bricks: bool [10, 10].
      struck: bool, whether the ball is still among the bricks after it broke one.
    """

    paddle: jax.Array
    x: jax.Array
    y: jax.Array
    right: jax.Array
    down: jax.Array
    last_x: jax.Array
    last_y: jax.Array
    bricks: jax.Array
    struck: jax.Array


class Draws(NamedTuple):
    """The random events of a game; only its start is random.

    Attributes:
      from_right: bool [], whether the ball starts on the right or on the left.
    """

    from_right: jax.Array


def draw(uniform: jax.Array) -> Draws:
    """Draw the side on which the ball starts; both are equally likely."""
    return Draws(uniform[0] >= 1 / 2)


def start(draws: Draws) -> State:
    """Return a state whose ball is on one side, below the bricks, and moves down to the other."""
    x = jnp.where(draws.from_right, SIZE - 1, 0)
    return State(
        paddle=number(4),
        x=x,
        y=number(3),
        right=~draws.from_right,
        down=jnp.asarray(True),
        last_x=x,
        last_y=number(3),
        bricks=_wall(),
        struck=jnp.asarray(False),
    )


def step(
    draws: Draws, state: State, action: jax.Array, ramping: bool
) -> tuple[State, jax.Array, jax.Array]:
    """Return the next state, the reward and whether the game is over; see `Game.step`."""
    paddle = jnp.clip(state.paddle + towards(action, LEFT, RIGHT), 0, SIZE - 1)
    ahead_x = state.x + jnp.where(state.right, 1, -1)
    ahead_y = state.y + jnp.where(state.down, 1, -1)
    side, ceiling = (ahead_x < 0) | (ahead_x >= SIZE), ahead_y < 0
    x = jnp.clip(ahead_x, 0, SIZE - 1)
    right = state.right ^ side

    ahead = at(ahead_y, x)
    brick = jnp.any(state.bricks & ahead)
    breaks = brick & ~state.struck
    bottom = (ahead_y == BOTTOM) & ~brick
    # A paddle under the ball reflects it upward; the tip of the paddle sends it back.
    middle = bottom & (state.x == paddle)
    tip = bottom & ~middle & (x == paddle)

    bricks = state.bricks & ~(breaks & ahead)
    bricks |= bottom & ~jnp.any(state.bricks) & _wall()
    after = State(
        paddle=paddle,
        x=x,
        y=jnp.where(breaks | middle | tip, state.y, jnp.maximum(ahead_y, 0)),
        right=right ^ tip,
        down=state.down ^ (ceiling | breaks | middle | tip),
        last_x=state.x,
        last_y=state.y,
        bricks=bricks,
        struck=brick,
    )
    return after, breaks.astype(jnp.int32), bottom & ~middle & ~tip


def observe(state: State) -> jax.Array:
    """Return the observation, bool [10, 10, 4]."""
    channels = (
        at(BOTTOM, state.paddle),
        at(state.y, state.x),
        at(state.last_y, state.last_x),
        state.bricks,
    )
    return jnp.stack(channels, axis=-1)


def _wall() -> jax.Array:
    """Return three rows of bricks, bool [10, 10]."""
    line = jnp.arange(SIZE)
    return jnp.broadcast_to(((line >= 1) & (line <= 3))[:, None], (SIZE, SIZE))
