"""Space Invaders: shoot a wave of aliens that marches down, and dodge what they drop.

A cannon on the bottom row fires upwards. The aliens march to one side until one of them is at the
edge, then down a row and back; the fewer are left, the faster. Every ten steps the one nearest to
the cannon drops a bomb. An alien shot is worth 1. A cleared wave is followed by another one, which
marches faster if difficulty ramps. It is over when a bomb or an alien reaches the cannon, or an
alien would march out below. Nothing is random.
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
SLOWEST, FASTEST = 12, 6  # steps between two moves of a full wave


class State(NamedTuple):
    """Where everything is; timers count down to 0.

    Attributes:
      cannon: int32, its column.
      aliens, shots, bombs: bool [10, 10].
      heading: int32, -1 left or 1 right.
      pace: int32, steps between two moves of a wave with enough aliens.
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
    """Nothing is random."""


def draw(uniform: jax.Array) -> Draws:
    """Nothing."""
    return Draws()


def start(draws: Draws) -> State:
    """A full wave, heading left."""
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
    """(next state, reward, whether it is over)."""
    fires = (action == FIRE) & (state.cooldown == 0)
    cannon = jnp.clip(state.cannon + towards(action, LEFT, RIGHT), 0, SIZE - 1)
    here = at(SIZE - 1, cannon)
    shots = shift(state.shots | (fires & here), -1, axis=0)
    bombs = shift(state.bombs, 1, axis=0)
    over = jnp.any((bombs | state.aliens) & here)

    marches = state.move_timer == 0
    count = jnp.sum(state.aliens, dtype=jnp.int32)
    leftwards = state.heading < 0
    turns = jnp.where(leftwards, jnp.any(state.aliens[:, 0]), jnp.any(state.aliens[:, -1]))
    sideways = jnp.where(leftwards, shift(state.aliens, -1, 1), shift(state.aliens, 1, 1))
    # What marches out below comes back on top: the game is over, but its last board is seen.
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
    """Bool [10, 10, 6]."""
    leftwards = state.heading < 0
    channels = (
        at(SIZE - 1, state.cannon),
        state.aliens,
        state.aliens & leftwards,
        state.aliens & ~leftwards,
        state.shots,
        state.bombs,
    )
    return jnp.stack(channels, axis=-1)


def _wave() -> jax.Array:
    """Four rows of six aliens, bool [10, 10]."""
    line = jnp.arange(SIZE)
    return (line < 4)[:, None] & ((line >= 2) & (line < 8))[None, :]


def _nearest(aliens: jax.Array, cannon: jax.Array) -> jax.Array:
    """The lowest alien of the column nearest to the cannon (left, if two are), bool [10, 10]."""
    line = jnp.arange(SIZE)
    distance = 2 * jnp.abs(line - cannon) + (line > cannon)
    distance = jnp.where(jnp.any(aliens, axis=0), distance, 2 * SIZE)
    column = aliens & (distance == jnp.min(distance))[None, :]
    row = jnp.max(jnp.where(jnp.any(column, axis=1), line, 0))
    return column & (line == row)[:, None]
