"""Seaquest: shoot fish and submarines, collect divers, and surface before the air runs out.

The player's submarine is two cells long. Fish and enemy submarines (one in three, which fire
torpedoes) cross the rows 1 … 8, and one shot is worth 1. Divers cross them too, and are picked up
by touching them, six at most. Air lasts for 200 steps. Surfacing brings fresh air, costs one diver
and, with ramping, lets enemies come and move more often; with six divers on board it costs all of
them and is worth the cells of the air gauge. It is over when an enemy or a torpedo touches the
submarine's front, when there is no air, or when it surfaces without divers.

Facts that make a small state without lists, each a consequence of how things appear and move:
enemies on a row all go the same way, and no two of a kind share a cell and the steps until they
move, since those that can be in one cell moved into it in different steps; of those in a cell, the
one that has been there longest moves first. Shots never share a cell. Divers appear every 30
steps, need 60 to cross, and move every 6: all at once, and there are two at most.
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
BITS = 4  # of an enemy
ONE_ENEMY, LOWEST = 0xF, 0x111111  # all of its bits, the lowest bit of each
AWAY = -2  # column of a diver that is not there; what is behind it is off the board too


class State(NamedTuple):
    """Where everything is; timers count down to 0.

    Attributes:
      x, y: int32, column and row of the front of the player's submarine.
      right: bool, where it points to.
      oxygen, divers: int32, air that is left, divers on board (-1 after a rescue of six).
      surfaced: bool, it has not been down since it last surfaced.
      cooldown: int32, steps until it can fire.
      shots, torpedoes: int32 [10, 10], 1 for one that goes left, 2 for one that goes right, 3 for
        both.
      heading: bool [10], whether the enemies on a row go right.
      fish, subs: int32 [10, 10], the enemies in each cell: four bits for one that moves at
        once, the next four for one that moves a step later, and so on up to five steps. They are
        0 if there is none; 1 for a fish; for a submarine the steps until it fires, from 1 (now)
        to 11.
      diver_x, diver_y: int32 [2], the newest first.
      diver_right: bool [2].
      spawn_timer, diver_timer: int32, steps until the next enemy and diver.
      spawn_every, move_every: int32, how often enemies come, how long they wait between moves.
      ramped: int32, how often it has become harder.
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
    """What comes next, if something does.

    Attributes:
      right, sub: bool [], where the enemy goes to, whether it is a submarine.
      row: int32 [], the enemy's, 1 … 8.
      diver_right: bool [].
      diver_row: int32 [], 1 … 8.
    """

    right: jax.Array
    sub: jax.Array
    row: jax.Array
    diver_right: jax.Array
    diver_row: jax.Array


def draw(uniform: jax.Array) -> Draws:
    """Both sides are equally likely, all rows are, and one enemy in three is a submarine."""
    return Draws(
        uniform[0] < 1 / 2,
        uniform[1] < 1 / 3,
        1 + below(uniform[2], DEEPEST),
        uniform[3] < 1 / 2,
        1 + below(uniform[4], DEEPEST),
    )


def start(draws: Draws) -> State:
    """At the surface of an empty sea."""
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
    """(next state, reward, whether it is over)."""
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
    """Bool [10, 10, 10]."""
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
    """An enemy at the edge, unless others on its row come towards it."""
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
    """Each shot hits one enemy at most: a fish before a submarine, the first to have come."""
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
    """Divers are picked up where they are or, if not, where they come to; the newest first."""
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
    """(submarines, shots, torpedoes, how many ran into a shot, whether one met the player)."""
    waited, arrived = _swim(state.subs, state.heading)
    met = (state.subs | arrived) != 0
    sunk = (arrived != 0) & (state.shots != 0) & ~here
    # One that runs into a shot just as it is about to fire still fires.
    fired = (_ready(waited) | _ready(arrived)) != 0
    subs = waited | (jnp.where(sunk, 0, arrived) << BITS * state.move_every)
    subs = subs - _ones(subs) + TORPEDO_EVERY * _ready(subs)
    torpedoes = state.torpedoes | _flying(fired, state.heading[:, None])
    shots = jnp.where(sunk, 0, state.shots)
    return subs, shots, torpedoes, jnp.sum(sunk, dtype=jnp.int32), jnp.any(met & here)


def _fish_move(
    state: State, shots: jax.Array, here: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """(fish, shots, how many ran into a shot, whether one met the player)."""
    waited, arrived = _swim(state.fish, state.heading)
    met = (state.fish | arrived) != 0
    caught = (arrived != 0) & (shots != 0) & ~here
    fish = waited | (jnp.where(caught, 0, arrived) << BITS * state.move_every)
    shots = jnp.where(caught, 0, shots)
    return fish, shots, jnp.sum(caught, dtype=jnp.int32), jnp.any(met & here)


def _breathes(state: State, ramping: bool) -> tuple[State, jax.Array, jax.Array]:
    """(state after timers and surfacing, worth of a rescue, whether it surfaced in vain)."""
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
    """Those that wait, with one step less to go; those that moved, without steps; [10, 10]."""
    return enemies >> BITS, _along(enemies & ONE_ENEMY, heading)


def _ones(enemies: jax.Array) -> jax.Array:
    """The same with 1 for every enemy."""
    return (enemies | enemies >> 1 | enemies >> 2 | enemies >> 3) & LOWEST


def _ready(enemies: jax.Array) -> jax.Array:
    """1 for every submarine that is to fire now."""
    return _ones(enemies) & ~_ones(enemies - _ones(enemies))


def _without_first(enemies: jax.Array) -> jax.Array:
    """Without the enemy in each cell that moves first."""
    ones = _ones(enemies)
    return enemies & ~(ONE_ENEMY * (ones & -ones))


def _along(board: jax.Array, heading: jax.Array) -> jax.Array:
    """The board with the pieces of every row a cell further the row's way (heading bool [10])."""
    return jnp.where(heading[:, None], shift(board, 1, axis=1), shift(board, -1, axis=1))


def _flying(board: jax.Array, right: jax.Array) -> jax.Array:
    """Shots or torpedoes where the board is true, int32 [10, 10]."""
    return jnp.where(board, jnp.where(right, 2, 1), 0)


def _fly(flying: jax.Array) -> jax.Array:
    """Shots or torpedoes a cell further."""
    return shift(flying & 1, -1, axis=1) | shift(flying & 2, 1, axis=1)


def _drawn(rows: jax.Array, columns: jax.Array) -> jax.Array:
    """The cells (rows [2], columns [2]), bool [10, 10]."""
    return at(rows[0], columns[0]) | at(rows[1], columns[1])


def _sign(right: jax.Array) -> jax.Array:
    return jnp.where(right, 1, -1)
