"""Seaquest: the player shoots enemies, collects divers, and surfaces before the air runs out.

The player's submarine is two cells long. Fish and enemy submarines cross the rows 1 … 8; one enemy
in three is a submarine, which fires torpedoes. Shooting an enemy is worth 1. Divers cross these
rows too, and the player picks them up by touching them, up to six. Air lasts for 200 steps.
Surfacing brings fresh air, costs one diver and, with ramping, makes enemies come and move more
often; with six divers on board it costs all of them and is worth the cells of the air gauge. The
game is over when an enemy or a torpedo touches the submarine's front, when there is no air, or
when the submarine surfaces without divers.

The state is small and needs no lists, because the way in which things appear and move has these
consequences: All enemies on a row move in the same direction. Two enemies of one kind never share
both a cell and the number of steps until they move, since they moved into the cell in different
steps; the enemy that has been in a cell longest moves first. Shots never share a cell. Divers
appear every 30 steps, need 60 to cross, and all move at once every 6 steps, so there are at most
two.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from continual_learning.envs.minatar.board import (
    DOWN,
    FIRE,
    LEFT,
    NOTHING,
    RIGHT,
    SIZE,
    UP,
    at,
    below,
    number,
    shift,
    towards,
)

CHANNELS = (
    "sub_front",
    "sub_back",
    "friendly_bullet",
    "trail",
    "enemy_bullet",
    "enemy_fish",
    "enemy_sub",
    "oxygen_guage",
    "diver_guage",
    "diver",
)
MINIMAL = (NOTHING, LEFT, UP, RIGHT, DOWN, FIRE)

DEEPEST = 8
AIR = 200
CREW = 6
COOLDOWN = 5
TORPEDO_EVERY = 11
DIVER_EVERY, DIVER_MOVES_EVERY = 30, 6
SPAWN_EVERY, SLOWEST, FASTEST = 20, 5, 2
BITS = 4  # the number of bits of an enemy
ONE_ENEMY, LOWEST = 0xF, 0x111111  # all bits of one enemy, the lowest bit of every enemy
AWAY = -2  # the column of an absent diver, whose trail is off the board too


class State(NamedTuple):
    """The state of a game; timers count down to 0.

    Attributes:
      x, y: int32, the column and row of the front of the player's submarine.
      right: bool, whether it points to the right.
      oxygen, divers: int32, the air that is left, the divers on board (-1 after a rescue of six).
      surfaced: bool, whether it has stayed at the surface since it last surfaced.
      cooldown: int32, the number of steps until it can fire.
      shots, torpedoes: int32 [10, 10], 1 for one that moves left, 2 for one that moves right, 3
        for both.
      heading: bool [10], whether the enemies on a row move right.
      fish, subs: int32 [10, 10], the enemies in every cell: four bits for one that moves at
        once, the next four for one that moves a step later, and so on up to five steps. They are
        0 if there is no enemy, and 1 for a fish. For a submarine they are the number of steps
        until it fires, from 1 (now) to 11.
      diver_x, diver_y: int32 [2], the columns and rows of the divers, the newest first.
      diver_right: bool [2], whether they move right.
      spawn_timer, diver_timer: int32, the number of steps until the next enemy and diver.
      spawn_every, move_every: int32, the number of steps between two enemies, and the steps that
        an enemy waits between two moves.
      ramped: int32, how often the game has become harder.
    """

    x: jax.Array
    y: jax.Array
    right: jax.Array
    oxygen: jax.Array
    divers: jax.Array
    surfaced: jax.Array
    cooldown: jax.Array
    shots: jax.Array
    torpedoes: jax.Array
    heading: jax.Array
    fish: jax.Array
    subs: jax.Array
    diver_x: jax.Array
    diver_y: jax.Array
    diver_right: jax.Array
    spawn_timer: jax.Array
    diver_timer: jax.Array
    spawn_every: jax.Array
    move_every: jax.Array
    ramped: jax.Array


class Draws(NamedTuple):
    """The next enemy and the next diver to appear.

    Attributes:
      right, sub: bool [], whether the enemy moves right, whether it is a submarine.
      row: int32 [], the row of the enemy, 1 … 8.
      diver_right: bool [], whether the diver moves right.
      diver_row: int32 [], the row of the diver, 1 … 8.
    """

    right: jax.Array
    sub: jax.Array
    row: jax.Array
    diver_right: jax.Array
    diver_row: jax.Array


def draw(uniform: jax.Array) -> Draws:
    """Draw an enemy and a diver; sides and rows are equally likely, one enemy in three is a sub."""
    return Draws(
        uniform[0] < 1 / 2,
        uniform[1] < 1 / 3,
        1 + below(uniform[2], DEEPEST),
        uniform[3] < 1 / 2,
        1 + below(uniform[4], DEEPEST),
    )


def start(draws: Draws) -> State:
    """Return a state with the player at the surface of an empty sea."""
    empty = jnp.zeros((SIZE, SIZE), jnp.int32)
    return State(
        x=number(5),
        y=number(0),
        right=jnp.asarray(False),
        oxygen=number(AIR),
        divers=number(0),
        surfaced=jnp.asarray(True),
        cooldown=number(0),
        shots=empty,
        torpedoes=empty,
        heading=jnp.zeros(SIZE, bool),
        fish=empty,
        subs=empty,
        diver_x=jnp.full(2, AWAY, jnp.int32),
        diver_y=jnp.zeros(2, jnp.int32),
        diver_right=jnp.zeros(2, bool),
        spawn_timer=number(SPAWN_EVERY),
        diver_timer=number(DIVER_EVERY),
        spawn_every=number(SPAWN_EVERY),
        move_every=number(SLOWEST),
        ramped=number(0),
    )


def step(
    draws: Draws, state: State, action: jax.Array, ramping: bool
) -> tuple[State, jax.Array, jax.Array]:
    """Return the next state, the reward and whether the game is over; see `Game.step`."""
    state = _enemy_appears(draws, _diver_appears(draws, state))
    state = _acts(state, action)
    state, reward = _shots_fly(state)
    state = _divers_swim(state)
    here = at(state.y, state.x)
    subs, shots, torpedoes, sunk, rammed = _subs_move(state, here)
    over = rammed | jnp.any((torpedoes != 0) & here)
    torpedoes = _fly(torpedoes)
    over |= jnp.any((torpedoes != 0) & here)
    fish, shots, caught, bitten = _fish_move(state, shots, here)
    state = state._replace(fish=fish, subs=subs, shots=shots, torpedoes=torpedoes)
    reward += sunk + caught
    over |= bitten | (state.oxygen <= 0)
    state, rescue, drowned = _breathes(state, ramping)
    return state, reward + rescue, over | drowned


def observe(state: State) -> jax.Array:
    """Return the observation, bool [10, 10, 10]."""
    line = jnp.arange(SIZE)
    fish, subs = state.fish != 0, state.subs != 0
    divers = _drawn(state.diver_y, state.diver_x)
    behind = _drawn(state.diver_y, state.diver_x - _sign(state.diver_right))
    bottom = (line == SIZE - 1)[:, None]
    air = line < jnp.maximum(state.oxygen, 0) * SIZE // AIR
    crew = (line >= SIZE - 1 - state.divers) & (line < SIZE - 1)
    channels = (
        at(state.y, state.x),
        at(state.y, state.x - _sign(state.right)),
        state.shots != 0,
        _along(fish | subs, ~state.heading) | behind,
        state.torpedoes != 0,
        fish,
        subs,
        bottom & air[None, :],
        bottom & crew[None, :],
        divers,
    )
    return jnp.stack(channels, axis=-1)


def _enemy_appears(draws: Draws, state: State) -> State:
    """Let an enemy appear at the edge, unless other enemies on its row move toward it."""
    due = state.spawn_timer == 0
    row = jnp.arange(SIZE) == draws.row
    taken = jnp.any((state.fish | state.subs) != 0, axis=1)
    comes = due & ~jnp.any(row & taken & (state.heading != draws.right))
    cell = at(draws.row, jnp.where(draws.right, 0, SIZE - 1))
    new = jnp.where(comes & cell, 1 << BITS * state.move_every, 0)
    return state._replace(
        heading=jnp.where(comes & row, draws.right, state.heading),
        fish=state.fish | jnp.where(draws.sub, 0, new),
        subs=state.subs | jnp.where(draws.sub, TORPEDO_EVERY * new, 0),
        spawn_timer=jnp.where(due, state.spawn_every, state.spawn_timer),
    )


def _diver_appears(draws: Draws, state: State) -> State:
    due = state.diver_timer == 0
    edge = jnp.where(draws.diver_right, 0, SIZE - 1)

    def newest(new: jax.Array, old: jax.Array) -> jax.Array:
        return jnp.where(due, jnp.stack([new, old[0]]), old)

    return state._replace(
        diver_x=newest(edge, state.diver_x),
        diver_y=newest(draws.diver_row, state.diver_y),
        diver_right=newest(draws.diver_right, state.diver_right),
        diver_timer=jnp.where(due, DIVER_EVERY, state.diver_timer),
    )


def _acts(state: State, action: jax.Array) -> State:
    fires = (action == FIRE) & (state.cooldown == 0)
    shot = fires & at(state.y, state.x)
    return state._replace(
        x=jnp.clip(state.x + towards(action, LEFT, RIGHT), 0, SIZE - 1),
        y=jnp.clip(state.y + towards(action, UP, DOWN), 0, DEEPEST),
        right=(action == RIGHT) | (state.right & (action != LEFT)),
        cooldown=jnp.where(fires, COOLDOWN, state.cooldown),
        shots=state.shots | _flying(shot, state.right),
    )


def _shots_fly(state: State) -> tuple[State, jax.Array]:
    """Move the shots; a shot hits at most one enemy, a fish before a submarine.

    Of several enemies of one kind, it hits the first that came into the cell.
    """
    shots = _fly(state.shots)
    shot = shots != 0
    caught = shot & (state.fish != 0)
    sunk = shot & ~caught & (state.subs != 0)
    state = state._replace(
        shots=jnp.where(caught | sunk, 0, shots),
        fish=jnp.where(caught, _without_first(state.fish), state.fish),
        subs=jnp.where(sunk, _without_first(state.subs), state.subs),
    )
    return state, jnp.sum(caught | sunk, dtype=jnp.int32)


def _divers_swim(state: State) -> State:
    """Move the divers; the player picks them up in their old or new cell, the newest first."""
    moves = (state.diver_timer - 1) % DIVER_MOVES_EVERY == 0
    divers, columns = state.divers, []
    for i in range(2):
        touched = (state.diver_y[i] == state.y) & (divers < CREW)
        came = state.diver_x[i] + moves * _sign(state.diver_right[i])
        came = jnp.where((came >= 0) & (came < SIZE), came, AWAY)
        taken = touched & ((state.diver_x[i] == state.x) | (came == state.x))
        divers = divers + taken
        columns.append(jnp.where(taken, AWAY, came))
    return state._replace(divers=divers, diver_x=jnp.stack(columns))


def _subs_move(
    state: State, here: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]:
    """Move the submarines.

    Args:
      state: the state before their move.
      here: bool [10, 10], the cell of the player.

    Returns:
      Submarines, shots, torpedoes, how many ran into a shot, and whether one met the player.
    """
    waited, arrived = _swim(state.subs, state.heading)
    met = (state.subs | arrived) != 0
    sunk = (arrived != 0) & (state.shots != 0) & ~here
    # A submarine that runs into a shot in the step in which it is due to fire still fires.
    fired = (_ready(waited) | _ready(arrived)) != 0
    subs = waited | (jnp.where(sunk, 0, arrived) << BITS * state.move_every)
    subs = subs - _ones(subs) + TORPEDO_EVERY * _ready(subs)
    torpedoes = state.torpedoes | _flying(fired, state.heading[:, None])
    shots = jnp.where(sunk, 0, state.shots)
    return subs, shots, torpedoes, jnp.sum(sunk, dtype=jnp.int32), jnp.any(met & here)


def _fish_move(
    state: State, shots: jax.Array, here: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Move the fish.

    Args:
      state: the state before their move.
      shots: int32 [10, 10], the shots that have hit no submarine.
      here: bool [10, 10], the cell of the player.

    Returns:
      Fish, shots, how many ran into a shot, and whether one met the player.
    """
    waited, arrived = _swim(state.fish, state.heading)
    met = (state.fish | arrived) != 0
    caught = (arrived != 0) & (shots != 0) & ~here
    fish = waited | (jnp.where(caught, 0, arrived) << BITS * state.move_every)
    shots = jnp.where(caught, 0, shots)
    return fish, shots, jnp.sum(caught, dtype=jnp.int32), jnp.any(met & here)


def _breathes(state: State, ramping: bool) -> tuple[State, jax.Array, jax.Array]:
    """Count the timers down, and let the submarine surface.

    Returns:
      The state, the reward for a rescue, and whether the submarine surfaced without divers.
    """
    below_surface = state.y > 0
    emerges = ~below_surface & ~state.surfaced
    refills = emerges & (state.divers != 0)
    rescue = refills & (state.divers == CREW)
    spawn_every, move_every = state.spawn_every, state.move_every
    harder = refills & ramping & ((spawn_every > 1) | (move_every > FASTEST))
    after = state._replace(
        oxygen=jnp.where(refills, AIR, state.oxygen - below_surface),
        divers=jnp.where(rescue, 0, state.divers) - refills,
        surfaced=~below_surface & (state.surfaced | refills),
        cooldown=jnp.maximum(state.cooldown - 1, 0),
        spawn_timer=jnp.maximum(state.spawn_timer - 1, 0),
        diver_timer=jnp.maximum(state.diver_timer - 1, 0),
        spawn_every=spawn_every - (harder & (spawn_every > 1)),
        move_every=move_every - (harder & (move_every > FASTEST) & (state.ramped % 2 == 1)),
        ramped=state.ramped + harder,
    )
    return after, jnp.where(rescue, state.oxygen * SIZE // AIR, 0), emerges & ~refills


def _swim(enemies: jax.Array, heading: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the enemies that wait, with one step less, and those that moved, both [10, 10]."""
    return enemies >> BITS, _along(enemies & ONE_ENEMY, heading)


def _ones(enemies: jax.Array) -> jax.Array:
    """Return the enemies with 1 in place of the bits of every enemy."""
    return (enemies | enemies >> 1 | enemies >> 2 | enemies >> 3) & LOWEST


def _ready(enemies: jax.Array) -> jax.Array:
    """Return 1 for every submarine that fires now."""
    return _ones(enemies) & ~_ones(enemies - _ones(enemies))


def _without_first(enemies: jax.Array) -> jax.Array:
    """Remove the enemy that moves first from every cell."""
    ones = _ones(enemies)
    return enemies & ~(ONE_ENEMY * (ones & -ones))


def _along(board: jax.Array, heading: jax.Array) -> jax.Array:
    """Move the pieces of every row by a cell in the direction of the row, `heading` bool [10]."""
    return jnp.where(heading[:, None], shift(board, 1, axis=1), shift(board, -1, axis=1))


def _flying(board: jax.Array, right: jax.Array) -> jax.Array:
    """Return shots or torpedoes where the board is true, int32 [10, 10]."""
    return jnp.where(board, jnp.where(right, 2, 1), 0)


def _fly(flying: jax.Array) -> jax.Array:
    """Move shots or torpedoes by a cell."""
    return shift(flying & 1, -1, axis=1) | shift(flying & 2, 1, axis=1)


def _drawn(rows: jax.Array, columns: jax.Array) -> jax.Array:
    """Return a board that is true in two cells (rows [2], columns [2]), bool [10, 10]."""
    return at(rows[0], columns[0]) | at(rows[1], columns[1])


def _sign(right: jax.Array) -> jax.Array:
    return jnp.where(right, 1, -1)
