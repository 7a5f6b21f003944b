"""Freeway: a chicken crosses eight lanes of traffic.

The chicken starts on the bottom row and can move up or down every third step. Every row 1 … 8 has
a car that drives to one side and comes back on the other; the slowest moves every sixth step, the
fastest every second one. Reaching the top is worth 1, brings the chicken back to the bottom, and
gives the cars new speeds. A chicken that is run over also returns to the bottom. The game is over
after 2,501 steps. Difficulty does not ramp.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from continual_learning.envs.minatar.board import (
    DOWN,
    NOTHING,
    SIZE,
    UP,
    at,
    below,
    number,
    towards,
)

CHANNELS = ("chicken", "car", "speed1", "speed2", "speed3", "speed4", "speed5")
MINIMAL = (NOTHING, UP, DOWN)

CARS = 8
SLOWEST = 5
COLUMN, BOTTOM = 4, SIZE - 1
REST = 3
TIME_LIMIT = 2500


class State(NamedTuple):
    """The state of a game; timers count down.

    Attributes:
      y: int32, the chicken's row.
      rest: int32, the number of steps until it can move.
      time: int32, the number of steps that are left.
      column: int32 [8], the columns of the cars on the rows 1 … 8.
      timer: int32 [8], the number of steps until a car moves.
      speed: int32 [8], the number of steps that a car waits between two moves, negative if it
        drives left.
    """

    y: jax.Array
    rest: jax.Array
    time: jax.Array
    column: jax.Array
    timer: jax.Array
    speed: jax.Array


class Draws(NamedTuple):
    """New speeds, at the start and when the chicken has crossed.

    Attributes:
      speed: int32 [8], numbers in -5 … -1 or 1 … 5.
    """

    speed: jax.Array


def draw(uniform: jax.Array) -> Draws:
    """Draw the speeds of the cars; all ten speeds are equally likely."""
    drawn = below(uniform[:CARS], 2 * SLOWEST)
    return Draws(jnp.where(drawn < SLOWEST, drawn - SLOWEST, drawn - SLOWEST + 1))


def start(draws: Draws) -> State:
    """Return a state with all cars on the left."""
    return State(
        y=number(BOTTOM),
        rest=number(REST),
        time=number(TIME_LIMIT),
        column=jnp.zeros(CARS, jnp.int32),
        timer=jnp.abs(draws.speed),
        speed=draws.speed,
    )


def step(
    draws: Draws, state: State, action: jax.Array, ramping: bool
) -> tuple[State, jax.Array, jax.Array]:
    """Return the next state, the reward and whether the game is over; see `Game.step`."""
    walks = ((action == UP) | (action == DOWN)) & (state.rest == 0)
    y = jnp.clip(state.y + walks * towards(action, UP, DOWN), 0, BOTTOM)
    crossed = y == 0
    y = jnp.where(crossed, BOTTOM, y)
    speed = jnp.where(crossed, draws.speed, state.speed)
    timer = jnp.where(crossed, jnp.abs(draws.speed), state.timer)

    drives = timer == 0
    column = (state.column + drives * jnp.sign(speed)) % SIZE
    # A car runs over a chicken in its cell before or after it moves.
    in_the_way = (state.column == COLUMN) | (column == COLUMN)
    run_over = jnp.any(in_the_way & (jnp.arange(1, CARS + 1) == y))
    after = State(
        y=jnp.where(run_over, BOTTOM, y),
        rest=jnp.maximum(jnp.where(walks, REST, state.rest) - 1, 0),
        time=state.time - 1,
        column=column,
        timer=jnp.where(drives, jnp.abs(speed), timer - 1),
        speed=speed,
    )
    return after, crossed.astype(jnp.int32), after.time < 0


def observe(state: State) -> jax.Array:
    """Return the observation, bool [10, 10, 7]."""
    line = jnp.arange(SIZE)
    cars = line[None, :] == state.column[:, None]
    behind = line[None, :] == ((state.column - jnp.sign(state.speed)) % SIZE)[:, None]
    pace = jnp.abs(state.speed)[:, None, None] == jnp.arange(1, SLOWEST + 1)[None, None, :]
    lanes = jnp.concatenate([cars[..., None], behind[..., None] & pace], axis=-1)
    traffic = jnp.pad(lanes, ((1, 1), (0, 0), (0, 0)))
    return jnp.concatenate([at(state.y, COLUMN)[..., None], traffic], axis=-1)
