"""All games as one environment."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from continual_learning.envs import Episodes, MinAtar, TaskStream, Values
from continual_learning.envs.minatar import GAMES, space_invaders
from continual_learning.envs.minatar.board import FIRE
from continual_learning.envs.minatar.environment import layout
from continual_learning.envs.minatar.pack import pack, size, unpack
from continual_learning.envs.minatar.switch import switch

KEY = jax.random.key(3)
ENV = MinAtar(tuple(GAMES))
COUNT, STEPS = 4, 60


# Everything here compiles far longer than it runs.
jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


def rollout(env, key, game):
    """Random play: what was seen, and what it led to, [steps, envs, …]."""
    task, episodes = {"game": game}, Episodes(env, COUNT, length=25, restart="fresh")

    def step(live, key):
        action = jax.random.randint(key, (COUNT,), 0, env.actions)
        after, timestep = episodes.step(live, action, task)
        return after, (live.observation, timestep)

    live = episodes.live(episodes.begin(key, task), task)
    return jax.lax.scan(step, live, jax.random.split(key, STEPS))[1]


@functools.cache
def played():
    play = jit(lambda game: rollout(ENV, KEY, game))
    games = [jax.tree.map(np.asarray, play(jnp.float32(game))) for game in range(5)]
    return jax.tree.map(lambda *parts: np.stack(parts), *games)


def test_observations_are_zeros_and_ones_in_the_channels_of_the_game():
    seen = played()[1].observation
    assert seen.shape == (5, STEPS, COUNT, 1000) and seen.dtype == np.float32
    assert set(np.unique(seen)) == {0.0, 1.0}
    boards = seen.reshape(5, -1, *ENV.observation_shape)
    for board, game in zip(boards, GAMES.values(), strict=True):
        assert not board[..., len(game.CHANNELS) :].any()
        assert (board[..., 0].sum((1, 2)) == 1).all()  # the player is somewhere, once


def test_episodes_are_cut_and_start_anew():
    seen, timestep = played()
    assert timestep.truncated.any() and (timestep.episode_length <= 25).all()
    assert not (timestep.truncated & timestep.terminated).any()
    ended = (timestep.terminated | timestep.truncated)[:, :-1]
    for game in (0, 1, 2):  # nothing is random in their starts
        again = seen[game, 1:][ended[game]]
        assert len(again) and (again == seen[game, 0, 0]).all()


def test_rewards_are_whole_and_not_negative():
    reward = played()[1].reward
    assert reward.dtype == np.float32 and (reward >= 0).all() and (reward == np.round(reward)).all()


def test_games_that_differ_side_by_side_are_the_same_as_each_alone():
    env = MinAtar(("breakout", "freeway"))
    play = jit(jax.vmap(lambda game: rollout(env, KEY, game)))
    one, other, together = (play(jnp.array(games)) for games in ([1.0, 1], [0.0, 0], [1.0, 0]))
    alone = jax.tree.map(lambda x, y: np.stack([x[0], y[1]]), one, other)
    jax.tree.map(np.testing.assert_array_equal, together, alone)


def test_the_same_key_is_the_same_game():
    env = MinAtar(("breakout", "freeway"))
    play = jit(jax.vmap(lambda key: rollout(env, key, jnp.float32(1))))
    seen = play(jnp.stack([KEY, KEY, jax.random.key(4)]))[0]
    assert (seen[0] == seen[1]).all() and (seen[0] != seen[2]).any()


def test_actions_stick_at_the_right_rate():
    env = MinAtar(("breakout",))
    task = {"game": jnp.float32(0)}
    state = env.reset(KEY, task)._replace(action=jnp.int32(3))
    keys = jax.random.split(KEY, 5000)
    step = jit(jax.vmap(lambda key: env.step(key, state, jnp.int32(1), task)))
    after, _ = step(keys)
    assert set(np.unique(after.action)) == {1, 3}
    assert np.mean(after.action == 3) == pytest.approx(0.1, abs=0.015)


def test_draws_have_the_right_chances():
    uniform = jax.random.uniform(KEY, (20_000, 8))
    sea = jax.vmap(GAMES["seaquest"].draw)(uniform)
    assert np.mean(sea.sub) == pytest.approx(1 / 3, abs=0.015)
    counts = np.bincount(sea.row, minlength=9) / 20_000
    assert counts[0] == 0 and counts[1:] == pytest.approx(np.full(8, 1 / 8), abs=0.015)
    speeds = np.asarray(jax.vmap(GAMES["freeway"].draw)(uniform).speed)
    values, counts = np.unique(speeds, return_counts=True)
    assert values.tolist() == [-5, -4, -3, -2, -1, 1, 2, 3, 4, 5]
    assert counts / counts.sum() == pytest.approx(np.full(10, 0.1), abs=0.01)
    assert np.mean(jax.vmap(GAMES["asterix"].draw)(uniform).gold) == pytest.approx(1 / 3, abs=0.015)


@pytest.mark.parametrize("name", GAMES)
def test_a_state_is_the_same_after_packing(name):
    state = GAMES[name].start(GAMES[name].draw(jnp.linspace(0.1, 0.9, 8)))
    packed = pack(state, size(state) + 3)
    assert packed.dtype == jnp.uint8 and packed.shape == (size(state) + 3,)
    jax.tree.map(np.testing.assert_array_equal, unpack(packed, layout(GAMES[name])), state)


def test_a_stream_goes_through_the_games_in_order_and_again():
    stream = TaskStream(ENV, {"game": Values(0, 1, 2)})
    assert [int(stream.task(KEY, jnp.int32(i))["game"]) for i in range(5)] == [0, 1, 2, 0, 1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"games": ()}, "at least one game"),
        ({"games": ("pong",)}, "no game 'pong'. Valid: space_invaders"),
        ({"sticky": 1.5}, "sticky must be within"),
    ],
)
def test_settings_that_make_no_sense(settings, message):
    with pytest.raises(ValueError, match=message):
        MinAtar(**settings)


BRANCHES = [lambda x: x + 1, lambda x: x * 10, lambda x: -x]


@pytest.mark.parametrize("index", [[1, 1, 1], [0, 1, 2], [2, 0, 2]])
def test_switch_takes_each_lane_to_its_branch(index):
    x = jnp.arange(6.0).reshape(3, 2)
    want = np.stack([BRANCHES[i](row) for i, row in zip(index, x, strict=True)])
    lanes = jax.vmap(lambda i, x: switch(i, BRANCHES, x))
    np.testing.assert_array_equal(lanes(jnp.array(index), x), want)
    inner = jax.vmap(lambda i, x: jax.vmap(lambda x: switch(i, BRANCHES, x))(x))
    np.testing.assert_array_equal(inner(jnp.array(index), x), want)


def test_switch_computes_one_branch_if_lanes_agree():
    seen = []

    def branch(number):
        def call(x):
            jax.debug.callback(lambda x: seen.append(number), x)
            return x

        return call

    lanes = jax.jit(jax.vmap(lambda i, x: switch(i, [branch(0), branch(1)], x)))
    lanes(jnp.array([1, 1]), jnp.arange(2.0))
    jax.effects_barrier()
    assert set(seen) == {1}


def test_space_invaders_fires_in_every_fifth_step_at_most():
    """A shot kills at most one alien, worth 1: no more than 200 in 1,000 steps."""

    fire = jnp.int32(FIRE)

    def step(state, _):
        after, _, _ = space_invaders.step(space_invaders.Draws(), state, fire, True)
        return after, after.cooldown > state.cooldown

    start = space_invaders.start(space_invaders.Draws())
    _, fired = jax.lax.scan(step, start, length=1000)
    np.testing.assert_array_equal(np.flatnonzero(fired), np.arange(0, 1000, 5))
