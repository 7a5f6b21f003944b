"""Statistics of a rollout."""

import jax
import jax.numpy as jnp

from continual_learning.agents.ppo.rollout import collect
from continual_learning.envs.episodes import Episodes
from tests.agents.probes import Probe, transition


class Faller(Probe):
    """Where the state is 0 it falls at once, for a reward of 1; elsewhere every step pays 10."""

    def step(self, key, state, action, task):
        falls = state[0] == 0
        return state, transition(state, jnp.where(falls, 1, 10), falls)


def test_every_environment_counts_once_in_the_latest_return():
    """However many episodes it ended: one falls in every step, the other reaches the limit."""
    episodes = Episodes(Faller(), count=2, length=4)
    state = episodes.begin(jax.random.key(0), {})._replace(env=jnp.array([[0.0], [1.0]]))
    live = episodes.live(state, {}, first=state.env)

    def act(step, observation):
        return observation, observation, observation[:, 0]

    _, _, found = collect(episodes, live, {}, act, steps=4, keep_reached=False)
    assert found["episodes_ended"] == 5
    assert found["episode_return"] == (4 * 1 + 40) / 5
    assert found["latest_return"] == (1 + 40) / 2
