"""What can happen in each game, so that a test can say that all of it did."""

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.envs.minatar import seaquest
from continual_learning.envs.minatar.board import DOWN, FIRE, LEFT, RIGHT, UP, at


def space_invaders_events(record):
    before, after, action = record["before"], record["after"], record["action"]
    over, reward = record["over"], record["reward"]
    marches, count = before.move_timer == 0, before.aliens.sum((1, 2))
    turned = before.heading != after.heading
    rows = np.arange(len(action))
    cleared = (count == reward) & (reward > 0)
    landed = marches & turned & before.aliens[:, 9].any(1)
    bombed = after.bombs[rows, 9, after.cannon] & (before.bomb_timer != 0)
    return {
        "fires": (action == FIRE) & (before.cooldown == 0),
        "cannot fire yet": (action == FIRE) & (before.cooldown > 0),
        "stays at the left wall": (action == LEFT) & (before.cannon == 0),
        "stays at the right wall": (action == RIGHT) & (before.cannon == 9),
        "shoots an alien": reward == 1,
        "wave marches sideways": marches & ~turned,
        "wave turns to the right": turned & (before.heading < 0),
        "wave turns to the left": turned & (before.heading > 0),
        "few aliens march faster": marches & (count < before.pace),
        "last alien marches on every step": marches & (count == 1),
        "alien drops a bomb": before.bomb_timer == 0,
        "wave cleared, the next is faster": cleared & (after.pace < before.pace),
        "wave cleared at the fastest pace": cleared & (before.pace == 6),
        "over: bomb": over & bombed,
        "over: alien lands": over & landed,
        "over: alien reaches the cannon": over & after.aliens[rows, 9, after.cannon] & ~landed,
    }


def asterix_events(record):
    before, after, action = record["before"], record["after"], record["action"]
    draws, over, reward = record["draws"], record["over"], record["reward"]
    due, full = before.spawn_timer == 0, before.present.all(1)
    spawns, moves = due & ~full, before.move_timer == 0
    row = np.arange(1, 9)[None] == after.y[:, None]
    stands = before.present & row & (before.column == after.x[:, None])
    on_gold, on_enemy = (stands & before.gold).any(1), (stands & ~before.gold).any(1)
    leaves = moves[:, None] & before.present & ~after.present
    harder, spawn_only = after.ramped > before.ramped, after.move_every == before.move_every
    hardest = (before.spawn_every == 1) & (before.move_every == 1)
    return {
        "enemy from the left": spawns & draws.right & ~draws.gold,
        "enemy from the right": spawns & ~draws.right & ~draws.gold,
        "gold from the left": spawns & draws.right & draws.gold,
        "gold from the right": spawns & ~draws.right & draws.gold,
        "no free row": due & full,
        "stays at the left wall": (action == LEFT) & (before.x == 0),
        "stays at the right wall": (action == RIGHT) & (before.x == 9),
        "stays at the top": (action == UP) & (before.y == 1),
        "stays at the bottom": (action == DOWN) & (before.y == 8),
        "walks onto gold": on_gold & (reward > 0),
        "gold comes to the player": ~on_gold & (reward > 0),
        "over: walks into an enemy": on_enemy & over,
        "over: enemy comes to the player": ~on_enemy & over,
        "leaves on the left": (leaves & ~before.right & (before.column == 0)).any(1),
        "leaves on the right": (leaves & before.right & (before.column == 9)).any(1),
        "more things appear": harder & spawn_only,
        "things also move faster": harder & ~spawn_only,
        "as hard as it gets": hardest,
    }


def breakout_events(record):
    before, after, action = record["before"], record["after"], record["action"]
    over, reward = record["over"], record["reward"]
    side = np.where(before.right, before.x == 9, before.x == 0)
    ahead = before.y + np.where(before.down, 1, -1)
    column = np.clip(before.x + np.where(before.right, 1, -1), 0, 9)
    rows = np.arange(len(action))
    brick = (ahead >= 0) & before.bricks[rows, np.maximum(ahead, 0), column]
    bottom = (ahead == 9) & ~over
    return {
        "stays at the left wall": (action == LEFT) & (before.paddle == 0),
        "stays at the right wall": (action == RIGHT) & (before.paddle == 9),
        "bounces off the left wall": side & (before.x == 0),
        "bounces off the right wall": side & (before.x == 9),
        "bounces off the ceiling": ahead < 0,
        "corner of the ceiling": (ahead < 0) & side,
        "breaks a brick from below": (reward > 0) & ~before.down,
        "breaks a brick from above": (reward > 0) & before.down,
        "breaks a brick at a wall": (reward > 0) & side,
        "passes a brick after another": brick & before.struck & (reward == 0),
        "middle of the paddle": bottom & (before.x == after.paddle),
        "tip of the paddle": bottom & (before.x != after.paddle),
        "middle of the paddle at a wall": bottom & (before.x == after.paddle) & side,
        "new wall": after.bricks.sum((1, 2)) > before.bricks.sum((1, 2)),
        "over: misses the ball": over,
        "over: but there is a new wall": over & (before.bricks.sum((1, 2)) == 0),
        "starts on the left": record["first"] & before.right,
        "starts on the right": record["first"] & ~before.right,
    }


def freeway_events(record):
    before, after, action = record["before"], record["after"], record["action"]
    over, reward = record["over"], record["reward"]
    walks = ((action == UP) | (action == DOWN)) & (before.rest == 0)
    goes = np.where(action == UP, -1, 1) * walks
    y = np.clip(before.y + goes, 0, 9)
    lane = np.clip(y - 1, 0, 7)[:, None]
    there = np.take_along_axis(before.column, lane, 1)[:, 0] == 4
    back = (after.y == 9) & (y != 9) & (reward == 0)
    moved = before.column != after.column
    return {
        "walks up": walks & (action == UP),
        "walks down": walks & (action == DOWN) & (before.y < 9),
        "stays at the bottom": walks & (action == DOWN) & (before.y == 9),
        "has to rest": ((action == UP) | (action == DOWN)) & (before.rest > 0),
        "crosses, and cars change": reward > 0,
        "walks into a car": back & there & (goes != 0),
        "car comes": back & ~there,
        "car comes round from the right": (moved & (before.column == 9) & (after.column == 0)).any(
            1
        ),
        "car comes round from the left": (moved & (before.column == 0) & (after.column == 9)).any(
            1
        ),
        **{
            f"speed {speed}": (moved & (np.abs(before.speed) == speed)).any(1)
            for speed in range(1, 6)
        },
        "over: time is up": over,
    }


def seaquest_events(record):
    """From the stages of our own step, whose sum the comparison has shown to be right."""
    trees = (record[key] for key in ("draws", "before", "action", "after", "reward", "over"))
    found = jax.jit(jax.vmap(_seaquest_events))(*(jax.tree.map(jnp.asarray, x) for x in trees))
    return {name: np.asarray(value) for name, value in found.items()}


def _seaquest_events(draws, before, action, after, reward, over):
    def some(x):
        return jnp.any(x)

    divers_came = seaquest._diver_appears(draws, before)
    came = seaquest._enemy_appears(draws, divers_came)
    acted = seaquest._acts(came, action)
    shot, _ = seaquest._shots_fly(acted)
    swum = seaquest._divers_swim(shot)
    here = at(swum.y, swum.x)
    _, shots, torpedoes, sunk, rammed = seaquest._subs_move(swum, here)
    flown = seaquest._fly(torpedoes)
    _, _, caught, bitten = seaquest._fish_move(swum, shots, here)

    def many(enemies):
        return seaquest._without_first(enemies) != 0

    due = before.spawn_timer == 0
    new = some(came.fish != before.fish) | some(came.subs != before.subs)
    arrived_sub = seaquest._swim(swum.subs, swum.heading)[1]
    dying = (arrived_sub == 1) & (swum.shots != 0) & ~here
    hit = (seaquest._fly(acted.shots) != 0) & (shot.shots == 0)
    cells_fish, cells_subs = acted.fish != 0, acted.subs != 0
    emerges = (after.y == 0) & ~before.surfaced
    aboard = swum.divers
    stands = (acted.diver_x == acted.x) & (acted.diver_y == acted.y)
    taken = swum.divers - before.divers
    moving = ((swum.fish | swum.subs) & 15) != 0
    leaving = jnp.where(swum.heading, moving[:, 9], moving[:, 0])
    ramped, faster = after.ramped > before.ramped, after.move_every < before.move_every
    return {
        "fish appears": due & some(came.fish != before.fish),
        "submarine appears": due & some(came.subs != before.subs),
        "enemy has no room": due & ~new,
        "enemy from the left": due & new & draws.right,
        "enemy from the right": due & new & ~draws.right,
        "diver from the left": (before.diver_timer == 0) & draws.diver_right,
        "diver from the right": (before.diver_timer == 0) & ~draws.diver_right,
        "fires left": (action == FIRE) & (before.cooldown == 0) & ~before.right,
        "fires right": (action == FIRE) & (before.cooldown == 0) & before.right,
        "fires at the surface": (action == FIRE) & (before.cooldown == 0) & (before.y == 0),
        "cannot fire yet": (action == FIRE) & (before.cooldown > 0),
        "stays at the left wall": (action == LEFT) & (before.x == 0),
        "stays at the right wall": (action == RIGHT) & (before.x == 9),
        "stays at the surface": (action == UP) & (before.y == 0),
        "stays at the bottom": (action == DOWN) & (before.y == 8),
        "shot leaves the board": some(acted.shots[:, 0] & 1) | some(acted.shots[:, 9] & 2),
        "shot hits a fish": some(hit & cells_fish),
        "shot hits a submarine": some(hit & ~cells_fish & cells_subs),
        "shot hits a fish, not the submarine with it": some(hit & cells_fish & cells_subs),
        "shot hits the first of several": some(hit & (many(acted.fish) | many(acted.subs))),
        "fish runs into a shot": caught > 0,
        "submarine runs into a shot": sunk > 0,
        "submarine fires as it runs into a shot": some(dying),
        "enemy leaves the board": some(leaving),
        "submarine fires": some(seaquest._ready(swum.subs)),
        "several enemies in a cell": some(many(before.fish) | many(before.subs)),
        "picks up a diver where it is": (taken > 0) & some(stands),
        "picks up a diver that comes": (taken > 0) & ~some(stands),
        "picks up two divers": taken == 2,
        "room for one of two divers": jnp.all(stands) & (before.divers == 5),
        "no room for a diver": some(stands) & (before.divers == 6),
        "diver leaves the board": some(
            (acted.diver_x != seaquest.AWAY) & (swum.diver_x == seaquest.AWAY)
        )
        & (taken == 0),
        "two divers": jnp.all(before.diver_x != seaquest.AWAY),
        "over: fish where it is": over & some((swum.fish != 0) & here),
        "over: fish comes": over & bitten & ~some((swum.fish != 0) & here),
        "over: submarine where it is": over & some((swum.subs != 0) & here),
        "over: submarine comes": over & rammed & ~some((swum.subs != 0) & here),
        "over: torpedo where it is": over & some((torpedoes != 0) & here),
        "over: torpedo comes": over & some((flown != 0) & here) & ~some((torpedoes != 0) & here),
        "over: no air": over & (before.oxygen <= 0),
        "over: surfaces without divers": over & emerges & (aboard == 0),
        "surfaces with 1 to 5 divers": emerges & (aboard >= 1) & (aboard <= 5),
        "surfaces with 6 divers": emerges & (aboard == 6),
        "rescue is worth the air left": emerges & (aboard == 6) & (reward >= 5),
        "surfaces below 0 divers": emerges & (aboard < 0),
        "more enemies": ramped & ~faster,
        "enemies also move faster": ramped & faster,
        "as hard as it gets": emerges & (aboard != 0) & ~ramped,
    }


EVENTS = {
    "space_invaders": space_invaders_events,
    "asterix": asterix_events,
    "seaquest": seaquest_events,
    "breakout": breakout_events,
    "freeway": freeway_events,
}
