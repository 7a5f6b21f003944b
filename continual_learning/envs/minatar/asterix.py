"""Asterix: the player collects gold and avoids enemies, which cross the board from both sides.

The player moves in four directions on rows 1 … 8. On every row, at most one thing moves from one
side to the other: an enemy, or (one in three) gold. Gold is worth 1, and an enemy that touches the
player ends the game. With ramping, things appear and move more and more often.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from continual_learning.envs.minatar.board import (
    DOWN,
    LEFT,
    NOTHING,
    RIGHT,
    SIZE,
    UP,
    at,
    below,
    number,
    towards,
)

CHANNELS = ("player", "enemy", "trail", "gold")
MINIMAL = (NOTHING, LEFT, UP, RIGHT, DOWN)

ROWS = 8
SPAWN_EVERY, MOVE_EVERY, RAMP_EVERY = 10, 5, 100


class State(NamedTuple):
    """The state of a game; timers count down.

    Attributes:
      x, y: int32, the player's column and row.
      present, right, gold: bool [8], for the rows 1 … 8: whether there is a thing, whether it
        moves to the right, whether it is gold.
      column: int32 [8], the columns of the things.
      spawn_every, move_every: int32, the steps between two appearances and between two moves.
      spawn_timer, move_timer, ramp_timer: int32.
      ramped: int32, how often the game has become harder.
    """

    x: jax.Array
    y: jax.Array
    present: jax.Array
    right: jax.Array
    gold: jax.Array
    column: jax.Array
    spawn_every: jax.Array
    move_every: jax.Array
    spawn_timer: jax.Array
    move_timer: jax.Array
    ramp_timer: jax.Array
    ramped: jax.Array


class Draws(NamedTuple):
    """The next thing to appear.

    Attributes:
      right, gold: bool [], whether it moves to the right, whether it is gold.
      place: float32 [] in [0, 1), which decides its row among the free ones.
    """

    right: jax.Array
    gold: jax.Array
    place: jax.Array


def draw(uniform: jax.Array) -> Draws:
    """Draw a thing: both sides and all free rows are equally likely, and one in three is gold."""
    return Draws(uniform[0] < 1 / 2, uniform[1] < 1 / 3, uniform[2])


def start(draws: Draws) -> State:
    """Return a board with only the player, in the middle."""
    none = jnp.zeros(ROWS, bool)
    return State(
        x=number(5),
        y=number(5),
        present=none,
        right=none,
        gold=none,
        column=jnp.zeros(ROWS, jnp.int32),
        spawn_every=number(SPAWN_EVERY),
        move_every=number(MOVE_EVERY),
        spawn_timer=number(SPAWN_EVERY),
        move_timer=number(MOVE_EVERY),
        ramp_timer=number(RAMP_EVERY),
        ramped=number(0),
    )


def step(
    draws: Draws, state: State, action: jax.Array, ramping: bool
) -> tuple[State, jax.Array, jax.Array]:
    """Return the next state, the reward and whether the game is over; see `Game.step`."""
    spawns = state.spawn_timer == 0
    new = spawns & _chosen(~state.present, draws.place)
    present = state.present | new
    right = jnp.where(new, draws.right, state.right)
    gold = jnp.where(new, draws.gold, state.gold)
    column = jnp.where(new, jnp.where(draws.right, 0, SIZE - 1), state.column)

    x = jnp.clip(state.x + towards(action, LEFT, RIGHT), 0, SIZE - 1)
    y = jnp.clip(state.y + towards(action, UP, DOWN), 1, ROWS)

    # The player meets a thing in its cell and, if it moves, also in its next cell.
    moves = state.move_timer == 0
    same_row = jnp.arange(1, ROWS + 1) == y
    met = present & same_row & (column == x)
    taken = met & gold
    column = column + moves * jnp.where(right, 1, -1)
    present &= ~taken & (column >= 0) & (column < SIZE)
    met_again = moves & present & same_row & (column == x)
    taken_again = met_again & gold
    present &= ~taken_again
    over = jnp.any((met | met_again) & ~gold)

    spawn_every, move_every = state.spawn_every, state.move_every
    hardening = ramping & ((spawn_every > 1) | (move_every > 1))
    harder = hardening & (state.ramp_timer < 0)
    ramp_timer = jnp.where(harder, RAMP_EVERY, state.ramp_timer - hardening)
    after = State(
        x=x,
        y=y,
        present=present,
        right=right,
        gold=gold,
        column=column,
        spawn_every=spawn_every - (harder & (spawn_every > 1)),
        move_every=move_every - (harder & (move_every > 1) & (state.ramped % 2 == 1)),
        spawn_timer=jnp.where(spawns, spawn_every, state.spawn_timer) - 1,
        move_timer=jnp.where(moves, move_every, state.move_timer) - 1,
        ramp_timer=ramp_timer,
        ramped=state.ramped + harder,
    )
    return after, jnp.sum(taken | taken_again, dtype=jnp.int32), over


def observe(state: State) -> jax.Array:
    """Return the observation, bool [10, 10, 4]."""
    behind = state.column - jnp.where(state.right, 1, -1)
    channels = (
        at(state.y, state.x),
        _drawn(state.present & ~state.gold, state.column),
        _drawn(state.present, behind),
        _drawn(state.present & state.gold, state.column),
    )
    return jnp.stack(channels, axis=-1)


def _drawn(present: jax.Array, column: jax.Array) -> jax.Array:
    """Return a board with the cells in the columns [8] of the rows 1 … 8, bool [10, 10]."""
    rows = present[:, None] & (jnp.arange(SIZE)[None, :] == column[:, None])
    return jnp.pad(rows, ((1, 1), (0, 0)))


def _chosen(free: jax.Array, place: jax.Array) -> jax.Array:
    """Return the free row that `place` chooses, bool [8]; no row if none is free."""
    rank = below(place, jnp.sum(free, dtype=jnp.int32))
    return free & (jnp.cumsum(free, dtype=jnp.int32) - 1 == rank)
