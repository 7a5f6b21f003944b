"""Space Invaders: the player shoots a wave of aliens that marches down, and dodges their bombs.

A cannon on the bottom row fires upward. The aliens march to one side until one of them is at the
edge, then down a row and back; the fewer are left, the faster they march. Every ten steps the alien
nearest to the cannon drops a bomb. Shooting an alien is worth 1. Another wave follows a cleared
one, and marches faster if difficulty ramps. The game is over when a bomb or an alien reaches the
cannon, or when an alien would march off the bottom of the board. Nothing is random.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from continual_learning.envs.minatar.board import (
    FIRE,
    LEFT,
    NOTHING,
    RIGHT,
    SIZE,
    at,
    number,
    shift,
    towards,
)

CHANNELS = ("cannon", "alien", "alien_left", "alien_right", "friendly_bullet", "enemy_bullet")
MINIMAL = (NOTHING, LEFT, RIGHT, FIRE)

COOLDOWN = 5
BOMB_EVERY = 10
SLOWEST, FASTEST = 12, 6  # the number of steps between two moves of a full wave


class State(NamedTuple):
    """The state of a game; timers count down to 0.

    Attributes:
      cannon: int32, the column of the cannon.
      aliens, shots, bombs: bool [10, 10].
      heading: int32, the direction of the aliens, -1 for left or 1 for right.
      pace: int32, the number of steps between two moves of a wave with enough aliens.
      move_timer, bomb_timer, cooldown: int32.
    """

    cannon: jax.Array
    aliens: jax.Array
    shots: jax.Array
    bombs: jax.Array
    heading: jax.Array
    pace: jax.Array
    move_timer: jax.Array
    bomb_timer: jax.Array
    cooldown: jax.Array


class Draws(NamedTuple):
    """The random events of a game, of which there are none."""


def draw(uniform: jax.Array) -> Draws:
    """Return empty `Draws`."""
    return Draws()


def start(draws: Draws) -> State:
    """Return a full wave that moves left."""
    empty = jnp.zeros((SIZE, SIZE), bool)
    return State(
        cannon=number(5),
        aliens=_wave(),
        shots=empty,
        bombs=empty,
        heading=number(-1),
        pace=number(SLOWEST),
        move_timer=number(SLOWEST),
        bomb_timer=number(BOMB_EVERY),
        cooldown=number(0),
    )


def step(
    draws: Draws, state: State, action: jax.Array, ramping: bool
) -> tuple[State, jax.Array, jax.Array]:
    """Return the next state, the reward and whether the game is over; see `Game.step`."""
    fires = (action == FIRE) & (state.cooldown == 0)
    cannon = jnp.clip(state.cannon + towards(action, LEFT, RIGHT), 0, SIZE - 1)
    here = at(SIZE - 1, cannon)
    shots = shift(state.shots | (fires & here), -1, axis=0)
    bombs = shift(state.bombs, 1, axis=0)
    over = jnp.any((bombs | state.aliens) & here)

    marches = state.move_timer == 0
    count = jnp.sum(state.aliens, dtype=jnp.int32)
    leftward = state.heading < 0
    turns = jnp.where(leftward, jnp.any(state.aliens[:, 0]), jnp.any(state.aliens[:, -1]))
    sideways = jnp.where(leftward, shift(state.aliens, -1, 1), shift(state.aliens, 1, 1))
    # Aliens that march off the bottom return at the top: the last board of the game shows them.
    marched = jnp.where(turns, jnp.roll(state.aliens, 1, axis=0), sideways)
    aliens = jnp.where(marches, marched, state.aliens)
    over |= jnp.any(aliens & here) | (marches & turns & jnp.any(state.aliens[-1]))

    drops = state.bomb_timer == 0
    bombs |= drops & _nearest(aliens, cannon)

    killed = aliens & shots
    aliens &= ~killed
    cleared = ~jnp.any(aliens)
    faster = cleared & (state.pace > FASTEST) & ramping
    cooldown = jnp.where(fires, COOLDOWN, state.cooldown)
    after = State(
        cannon=cannon,
        aliens=aliens | (cleared & _wave()),
        shots=shots & ~killed,
        bombs=bombs,
        heading=jnp.where(marches & turns, -state.heading, state.heading),
        pace=state.pace - faster,
        move_timer=jnp.where(marches, jnp.minimum(count, state.pace), state.move_timer) - 1,
        bomb_timer=jnp.where(drops, BOMB_EVERY, state.bomb_timer) - 1,
        cooldown=jnp.maximum(cooldown - 1, 0),
    )
    return after, jnp.sum(killed, dtype=jnp.int32), over


def observe(state: State) -> jax.Array:
    """Return the observation, bool [10, 10, 6]."""
    leftward = state.heading < 0
    channels = (
        at(SIZE - 1, state.cannon),
        state.aliens,
        state.aliens & leftward,
        state.aliens & ~leftward,
        state.shots,
        state.bombs,
    )
    return jnp.stack(channels, axis=-1)


def _wave() -> jax.Array:
    """Return four rows of six aliens, bool [10, 10]."""
    line = jnp.arange(SIZE)
    return (line < 4)[:, None] & ((line >= 2) & (line < 8))[None, :]


def _nearest(aliens: jax.Array, cannon: jax.Array) -> jax.Array:
    """Return the lowest alien of the column nearest to the cannon, bool [10, 10].

    If two columns are equally near, the left one counts.
    """
    line = jnp.arange(SIZE)
    distance = 2 * jnp.abs(line - cannon) + (line > cannon)
    distance = jnp.where(jnp.any(aliens, axis=0), distance, 2 * SIZE)
    column = aliens & (distance == jnp.min(distance))[None, :]
    row = jnp.max(jnp.where(jnp.any(column, axis=1), line, 0))
    return column & (line == row)[:, None]
