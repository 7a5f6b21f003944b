"""Plays the official games and writes down their states, in our terms, and what they drew."""

import copy
from importlib import import_module
from typing import Any

import numpy as np

from continual_learning.envs.minatar import asterix, breakout, freeway, seaquest, space_invaders
from continual_learning.envs.minatar.board import DOWN, FIRE, LEFT, NOTHING, RIGHT, UP
from tests.envs.minatar import trained

int32, flag = np.int32, np.bool_


class Recorder:
    """A source of random numbers that remembers what it gave."""

    def __init__(self, seed):
        self.source = np.random.RandomState(seed)
        self.given: list[Any] = []

    def rand(self, *shape):
        return self._give(self.source.rand(*shape))

    def randint(self, *args, **kwargs):
        return self._give(self.source.randint(*args, **kwargs))

    def _give(self, value):
        self.given.append(np.copy(value))
        return value


def space_invaders_state(env):
    return space_invaders.State(
        int32(env.pos),
        env.alien_map.astype(flag),
        env.f_bullet_map.astype(flag),
        env.e_bullet_map.astype(flag),
        int32(env.alien_dir),
        int32(env.enemy_move_interval),
        int32(env.alien_move_timer),
        int32(env.alien_shot_timer),
        int32(env.shot_timer),
    )


def asterix_state(env):
    things = [thing or [0, 0, False, False] for thing in env.entities]
    return asterix.State(
        int32(env.player_x),
        int32(env.player_y),
        np.array([thing is not None for thing in env.entities], flag),
        np.array([thing[2] for thing in things], flag),
        np.array([thing[3] for thing in things], flag),
        np.array([thing[0] for thing in things], int32),
        int32(env.spawn_speed),
        int32(env.move_speed),
        int32(env.spawn_timer),
        int32(env.move_timer),
        int32(env.ramp_timer),
        int32(env.ramp_index),
    )


def seaquest_state(env):
    """Asserts what makes our smaller state possible: the facts in the docstring of the game."""
    heading = np.zeros(10, flag)
    fish, subs = np.zeros((10, 10), int32), np.zeros((10, 10), int32)
    for x, y, right, timer in env.e_fish:
        assert not fish[y, x] >> 4 * timer & 15
        fish[y, x] |= 1 << 4 * timer
        heading[y] = right
    for x, y, right, timer, fires in env.e_subs:
        assert not subs[y, x] >> 4 * timer & 15
        subs[y, x] |= (fires + 1) << 4 * timer
        heading[y] = right
    assert all(heading[enemy[1]] == enemy[2] for enemy in env.e_fish + env.e_subs)
    for enemies in (env.e_fish, env.e_subs):
        together = {}
        for x, y, _, timer, *_ in enemies:
            together.setdefault((x, y), []).append(timer)
        assert all(timers == sorted(timers) for timers in together.values())
    divers = env.divers[::-1]
    assert len(divers) <= 2
    assert all(diver[3] == (env.d_spawn_timer - 1) % 6 for diver in divers)
    divers = (divers + [[seaquest.AWAY, 0, False, 0]] * 2)[:2]
    assert len({(x, y) for x, y, _ in env.f_bullets}) == len(env.f_bullets)
    return seaquest.State(
        int32(env.sub_x),
        int32(env.sub_y),
        flag(env.sub_or),
        int32(env.oxygen),
        int32(env.diver_count),
        flag(env.surface),
        int32(env.shot_timer),
        _flying(env.f_bullets),
        _flying(env.e_bullets),
        heading,
        fish,
        subs,
        np.array([diver[0] for diver in divers], int32),
        np.array([diver[1] for diver in divers], int32),
        np.array([diver[2] for diver in divers], flag),
        int32(env.e_spawn_timer),
        int32(env.d_spawn_timer),
        int32(env.e_spawn_speed),
        int32(env.move_speed),
        int32(env.ramp_index),
    )


def breakout_state(env):
    return breakout.State(
        int32(env.pos),
        int32(env.ball_x),
        int32(env.ball_y),
        flag(env.ball_dir in (1, 2)),
        flag(env.ball_dir in (2, 3)),
        int32(env.last_x),
        int32(env.last_y),
        env.brick_map.astype(flag),
        flag(env.strike),
    )


def freeway_state(env):
    cars = np.array(env.cars, int32)
    return freeway.State(
        int32(env.pos),
        int32(env.move_timer),
        int32(env.terminate_timer),
        cars[:, 0],
        cars[:, 2],
        cars[:, 3],
    )


def _flying(bullets):
    flying = np.zeros((10, 10), int32)
    for x, y, right in bullets:
        flying[y, x] |= 2 if right else 1
    return flying


STATES = {
    "space_invaders": space_invaders_state,
    "asterix": asterix_state,
    "seaquest": seaquest_state,
    "breakout": breakout_state,
    "freeway": freeway_state,
}


def draws(name, before, given):
    """What was random in a step (or in a reset, for which `before` is None)."""
    given = list(given)
    if name == "space_invaders":
        return space_invaders.Draws()
    if name == "breakout":
        return breakout.Draws(flag(given[0]) if given else flag(False))
    if name == "freeway":
        if not given:
            return freeway.Draws(np.ones(8, int32))
        return freeway.Draws((given[0] * np.sign(given[1] - 0.5)).astype(int32))
    if name == "asterix":
        if not given:
            return asterix.Draws(flag(False), flag(False), np.float32(0))
        free = np.sum(~before.present)
        place = (given[2] + 0.5) / free if free else 0
        return asterix.Draws(flag(given[0] < 1 / 2), flag(given[1] < 1 / 3), np.float32(place))
    enemy, diver = [1.0, 1.0, 1], [1.0, 1]
    if before is not None and before.spawn_timer == 0:
        enemy, given = given[:3], given[3:]
    if before is not None and before.diver_timer == 0:
        diver, given = given[:2], given[2:]
    assert not given
    return seaquest.Draws(
        flag(enemy[0] < 1 / 2),
        flag(enemy[1] < 1 / 3),
        int32(enemy[2]),
        flag(diver[0] < 1 / 2),
        int32(diver[1]),
    )


def vary(name, env, rng):
    """Starts an episode somewhere further on, in a state that play could lead to."""
    if name == "space_invaders":
        env.alien_map *= rng.random((10, 10)) < rng.choice([0.1, 0.5, 1.0])
        env.alien_map[0, 5] = 1
        env.alien_map = np.roll(env.alien_map, rng.integers(0, 5), axis=0)
        env.enemy_move_interval = int(rng.integers(6, 13))
        env.alien_move_timer = int(rng.integers(0, 3))
    elif name == "asterix":
        level = int(rng.integers(0, 10))
        env.ramp_index, env.ramp_timer = level, int(rng.integers(-1, 5))
        env.spawn_speed, env.move_speed = max(1, 10 - level), max(1, 5 - level // 2)
        env.spawn_timer, env.move_timer = 0, 0
    elif name == "seaquest":
        level = int(rng.choice([0, 1, 2, 3, 5, 12, 15, 18, 19]))
        env.ramp_index = level
        env.e_spawn_speed, env.move_speed = max(1, 20 - level), max(2, 5 - level // 2)
        env.e_spawn_timer, env.d_spawn_timer = 0, int(rng.integers(0, 5))
        env.diver_count = int(rng.integers(-1, 7))
        env.oxygen = int(rng.choice([3, 60, 200]))
        if level >= 12:
            _crowd(env, rng)
        elif level == 2:
            _duel(env, rng)
    elif name == "breakout":
        env.brick_map *= rng.random((10, 10)) < rng.choice([0.02, 0.3, 1.0])
    else:
        env.terminate_timer = int(rng.choice([20, 300, 2500]))
        env.pos = int(rng.integers(1, 10))


def _crowd(env, rng):
    """A row full of enemies of any age, two divers that pass each other, the player close by.

    With the fastest enemies age says all: they move on every third step and fire on every 11th.
    """
    row, right = int(rng.integers(1, 9)), bool(rng.integers(2))
    for age in sorted(rng.choice(np.arange(1, 30), rng.integers(3, 20), replace=False))[::-1]:
        x = int(age // 3) if right else 9 - int(age // 3)
        enemy = [x, row, right, 2 - int(age % 3)]
        if rng.random() < 0.5:
            env.e_fish.append(enemy)
        else:
            env.e_subs.append([*enemy, 10 - int(age % 11)])
    age, diver_row = int(rng.integers(1, 30)), int(rng.integers(1, 9))
    env.d_spawn_timer = 30 - age
    for moves, to_right in (((age + 30) // 6, right), (age // 6, not right)):
        x = moves if to_right else 9 - moves
        env.divers.append([x, diver_row, to_right, (29 - age) % 6])
    env.sub_x, env.sub_y = int(rng.integers(1, 9)), int(rng.choice([row, row, diver_row]))
    env.sub_or, env.surface = bool(rng.random() < 0.8) != right, False


def _duel(env, rng):
    """A submarine that has lived while enemies became faster moves into a shot as it fires."""
    row = int(rng.integers(1, 9))
    env.e_subs.append([1, row, True, 0, 0])
    env.f_bullets.append([3, row, False])
    env.sub_x, env.sub_y, env.shot_timer, env.surface = 5, row, 3, False
    env.e_spawn_timer = 8


def uniformly(name, env, rng):
    """A random action."""
    return int(rng.integers(6))


def stubbornly(name, env, rng):
    """Mostly the same action as a moment ago, so that the player gets somewhere."""
    if rng.random() < 0.3:
        env.stubborn = int(rng.integers(6))
    return getattr(env, "stubborn", NOTHING)


def shooting(name, env, rng):
    """The same with half of all actions shots."""
    return FIRE if rng.random() < 0.5 else stubbornly(name, env, rng)


def greedily(name, env, rng):
    """The action that is best for the next step, and brings the player where it wants to be."""
    if rng.random() < 0.05:
        return uniformly(name, env, rng)

    def worth(action):
        future = copy.deepcopy(env)
        reward, over = future.act(action)
        return (-over, reward, GOALS[name](future), rng.random())

    return max(range(6), key=worth)


def skilfully(name, env, rng):
    """As a trained policy does."""
    return trained.act(name, env.state(), rng)


def _sea_goal(env):
    """Down to the nearest diver; up with a full boat or little air."""
    if env.diver_count == 6 or (env.oxygen < 60 and env.diver_count != 0):
        return -env.sub_y
    near = [abs(x - env.sub_x) + abs(y - env.sub_y) for x, y, *_ in env.divers]
    return -min(near, default=abs(env.sub_y - 4))


GOALS = {
    "space_invaders": lambda env: 0,
    "asterix": lambda env: 0,
    "seaquest": _sea_goal,
    "breakout": lambda env: -abs(env.pos - env.ball_x) * (env.ball_y > 3),
    "freeway": lambda env: -env.pos,
}

POLICIES = {
    "random": uniformly,
    "stubborn": stubbornly,
    "shooting": shooting,
    "greedy": greedily,
    "trained": skilfully,
}
KEYS = {NOTHING: "n", LEFT: "l", UP: "u", RIGHT: "r", DOWN: "d", FIRE: "f"}


def play(name, policy, steps, seed, ramping=True, varied=0.5, length=300):
    """Plays `steps` steps.

    The share `varied` of the episodes starts further on; one is cut after about `length` steps.

    Returns:
      {"before", "draws", "action", "after", "observation", "reward", "over", "first"}, each with a
      leading axis; "first" says where an episode starts.
    """
    rng = np.random.default_rng(seed)
    env = import_module(f"minatar.environments.{name}").Env(ramping=ramping)
    assert [KEYS[action] for action in range(6)] == env.action_map
    env.random = recorder = Recorder(seed)
    rows, first = [], True
    for _ in range(steps):
        if first:
            env.reset()
            if rng.random() < varied:
                vary(name, env, rng)
        before, seen = STATES[name](env), len(recorder.given)
        action = POLICIES[policy](name, env, rng)
        reward, over = env.act(action)
        given, recorder.given = recorder.given[seen:], []
        rows.append(
            {
                "before": before,
                "draws": draws(name, before, given),
                "action": int32(action),
                "after": STATES[name](env),
                "observation": env.state(),
                "reward": int32(reward),
                "over": flag(over),
                "first": flag(first),
            }
        )
        first = over or rng.random() < 1 / length
    return stacked(rows)


def stacked(rows):
    """A list of trees as one tree of arrays."""
    head = rows[0]
    if isinstance(head, dict):
        return {key: stacked([row[key] for row in rows]) for key in head}
    if hasattr(head, "_fields"):
        return type(head)(*(stacked([row[i] for row in rows]) for i in range(len(head))))
    return np.stack(rows)
