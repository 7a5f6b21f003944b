"""Delays act exactly k steps later."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continual_learning.envs import Delayed, Episodes
from tests.envs.toys import Counter, usual

STEPS = 12
ENV = Delayed(Counter(), action_delay=5, observation_delay=4)


@jax.jit
def rollout(action_delay, observation_delay):
    """Actions that acted [steps], observations of the steps, observations acted on."""
    task = usual(ENV) | {"action_delay": action_delay, "observation_delay": observation_delay}
    state = ENV.reset(jax.random.key(0), task)

    def step(state, t):
        action = (t + 1.0)[None]
        after, reached = ENV.step(jax.random.key(1), state, action, task)
        return after, (
            reached.metrics["action"],
            reached.observation[0],
            ENV.observe(state, task)[0],
            reached.reward,
        )

    return jax.lax.scan(step, state, jnp.arange(STEPS, dtype=jnp.float32))[1]


@given(st.integers(0, 5), st.integers(0, 4))
def test_actions_act_and_observations_arrive_k_steps_later(action_delay, observation_delay):
    acted, reached, seen, reward = rollout(
        jnp.float32(action_delay), jnp.float32(observation_delay)
    )
    t = np.arange(STEPS)
    np.testing.assert_array_equal(acted, np.maximum(t + 1 - action_delay, 0))
    np.testing.assert_array_equal(seen, np.maximum(t - observation_delay, 0))
    np.testing.assert_array_equal(reached, np.maximum(t + 1 - observation_delay, 0))
    np.testing.assert_array_equal(reward, t + 1)


def test_a_delay_beyond_the_longest_is_the_longest():
    acted, *_ = rollout(jnp.float32(99), jnp.float32(0))
    assert acted[:7].tolist() == [0, 0, 0, 0, 0, 1, 2]


def test_without_delays_nothing_is_kept():
    env = Delayed(Counter())
    state = env.reset(jax.random.key(0), usual(env))
    assert state.actions.shape == (0, 1) and state.observations.shape == (0, 1)


def test_a_negative_delay():
    with pytest.raises(ValueError, match="action_delay must not be negative, got -1"):
        Delayed(Counter(), action_delay=-1)
    with pytest.raises(ValueError, match=r"one of 'one_hot', .*'blind', got 'all'"):
        Delayed(Counter(), told="all")


def played(env, steps=STEPS, **task):
    """Actions 1, 2, … in that order: what acted [steps], what was seen after each step."""
    task = usual(env, **task)
    keys = jax.random.split(jax.random.key(2), steps)

    def step(state, number_and_key):
        number, key = number_and_key
        after, reached = env.step(key, state, (number + 1.0)[None], task)
        np.testing.assert_array_equal(reached.observation.shape, (env.observation_size,))
        return after, (reached.metrics["action"], reached.observation, env.observe(after, task))

    start = env.reset(jax.random.key(0), task)
    scan = jax.jit(lambda: jax.lax.scan(step, start, (jnp.arange(float(steps)), keys))[1])
    acted, reached, seen = scan()
    np.testing.assert_array_equal(reached, seen)
    return np.asarray(acted), np.asarray(seen)


def test_a_step_draws_its_delays_and_tells_those_that_acted():
    env = Delayed(Counter(), 5, 4, "one_hot", interval=True)
    between = {"action_delay": 1, "action_delay_high": 4, "observation_delay": 2}
    acted, seen = played(env, 200, **between, observation_delay_high=3)
    arrived, told = seen[:, 0], seen[:, 7:]
    assert seen.shape[1] == 1 + 6 + 5 + 6
    observation, action = told[:, :5].argmax(1), told[:, 5:].argmax(1)
    assert (told[:, :5].sum(1) == 1).all() and (told[:, 5:].sum(1) == 1).all()
    assert {*observation} == {2, 3} and {*action} == {1, 2, 3, 4}
    t = np.arange(200)
    np.testing.assert_array_equal(acted, np.maximum(t + 1 - action, 0))
    np.testing.assert_array_equal(arrived, np.maximum(t + 1 - observation, 0))


def test_without_a_higher_end_an_interval_is_a_number():
    env = Delayed(Counter(), 5, 4, "scalar", interval=True)
    acted, seen = played(env, action_delay=3, observation_delay=2)
    np.testing.assert_array_equal(acted, np.maximum(np.arange(STEPS) - 2, 0))
    np.testing.assert_allclose(seen[:, -2:], [[2 / 4, 3 / 5]] * STEPS)


@pytest.mark.parametrize("told", ["none", "scalar", "one_hot"])
def test_what_is_told_of_delays_of_the_task(told):
    env = Delayed(Counter(), 2, 3, told)
    acted, seen = played(env, 5, action_delay=2, observation_delay=1)
    assert acted.tolist() == [0, 0, 1, 2, 3]
    assert seen[:, 0].tolist() == [0, 1, 2, 3, 4]
    history = [[1, 0, 0], [2, 1, 0], [3, 2, 1], [4, 3, 2], [5, 4, 3]]  # newest first
    assert seen[:, 1:4].tolist() == history
    rest = {"none": [], "scalar": [1 / 3, 1], "one_hot": [0, 1, 0, 0, 0, 0, 1]}[told]
    np.testing.assert_allclose(seen[:, 4:], [rest] * 5, rtol=1e-6)


@pytest.mark.parametrize("restart", ["first", "fresh"])
def test_an_episode_begins_with_empty_buffers(restart):
    """Episodes of four steps, by their end or by the time limit; the last has only begun."""
    for env, length in ((Counter(end=4), 99), (Counter(), 4)):
        episodes = Episodes(Delayed(env, 2, 3, "none"), 2, length, restart)
        task = usual(episodes.env, action_delay=2, observation_delay=1)
        begun = episodes.begin(jax.random.key(0), task)
        live = episodes.live(begun, task, first=begun.env)

        def step(live, number, episodes=episodes, task=task):
            after, reached = episodes.step(live, jnp.full((2, 1), number + 1.0), task)
            return after, (reached.metrics["action"], live.observation)

        run = jax.jit(lambda live, step=step: jax.lax.scan(step, live, jnp.arange(9.0))[1])
        acted, seen = run(live)
        assert acted[:, 0].tolist() == [0, 0, 1, 2, 0, 0, 5, 6, 0]
        assert seen[:, 1, 0].tolist() == [0, 0, 1, 2, 0, 0, 1, 2, 0]
        history = [[0, 0, 0], [1, 0, 0], [2, 1, 0], [3, 2, 1]]
        again = [[0, 0, 0], [5, 0, 0], [6, 5, 0], [7, 6, 5], [0, 0, 0]]
        assert seen[:, 1, 1:].tolist() == history + again
