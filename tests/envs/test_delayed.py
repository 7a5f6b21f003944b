"""Delays act exactly k steps later."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continual_learning.envs import Delayed
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
