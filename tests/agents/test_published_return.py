"""The paper's bookkeeping of returns, against its trainer's loop in plain Python."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from continual_learning.agents.sac.published_return import PublishedReturn
from continual_learning.envs.episodes import Episodes
from tests.agents import probes

NONE = np.nan


def likeliest(params, seen):
    """Step in the direction that the parameters name."""
    return jnp.broadcast_to(params, len(seen))


def logged(published, task, actions, params=0):
    """What is logged after each step [T], the true returns that ended and the last places."""
    key = jax.random.key(3)
    begun = published.episodes.begin(jax.random.key(1), task)
    start = published.episodes.live(begun, task, first=begun.env)

    def step(carry, action):
        live, sums = carry
        live = published.evaluate_if_due(live, likeliest, params, key, task)
        live, reached = published.episodes.step(live, action, task)
        sums = published.add(sums, reached)
        return (live, sums), (published.value(sums), live.state.total)

    return jax.jit(lambda: jax.lax.scan(step, (start, published.start()), actions)[1])()


def test_a_sum_goes_on_through_restarts():
    """Step k of an episode pays k and the limit is 7, so that every true return is 28.

    The 10th step is the first of a new episode, although the one before has only had two.
    """
    episodes = Episodes(probes.CountingBits(), 2, 7)
    task = {"bonus": jnp.float32(0), "length": jnp.float32(1000)}
    published = PublishedReturn(episodes, every=18, until=2)
    found, total = logged(published, task, jnp.zeros((25, 2), jnp.int32))
    expected = [NONE] * 6 + [28] * 9 + [(2 * 28 + 2 * 31) / 4] * 9 + [(2 * 28 + 4 * 31) / 6]
    np.testing.assert_allclose(found, expected)
    ours = [1, 3, 6, 10, 15, 21, 0, 1, 3] * 2  # of one episode each
    np.testing.assert_array_equal(total[:18, 0], ours)


def test_the_limit_hardly_ever_fires():
    episodes = Episodes(probes.CountingBits(), 2, 7)
    task = {"bonus": jnp.float32(0), "length": jnp.float32(1000)}
    published = PublishedReturn(episodes, every=10, until=2)
    found, _ = logged(published, task, jnp.zeros((40, 2), jnp.int32))
    assert np.isnan(found).all()


@pytest.mark.parametrize("kept", [3, 100])
def test_it_is_the_loop_of_the_trainer(kept):
    """Of environments that end at different times, so that evaluations leave them anywhere."""
    envs, steps = 3, 60
    episodes = Episodes(probes.Grid(), envs, 6, restart="fresh")
    published = PublishedReturn(episodes, every=20, until=4, kept=kept)
    actions = jax.random.randint(jax.random.key(0), (steps, envs), 0, 4)
    step = jax.jit(lambda live, action: episodes.step(live, action, {}))

    begun = episodes.begin(jax.random.key(1), {})
    live = episodes.live(begun, {}, first=begun.env)
    running, returns, expected, last = np.zeros(envs), [], [], 0
    for t in range(steps):
        live, reached = step(live, actions[t])
        running += np.asarray(reached.reward)
        for i in np.flatnonzero(reached.ended):
            returns.append(running[i])
            running[i] = 0
        expected.append(np.mean(returns[-kept:]) if returns else NONE)
        if (t + 1 - last) * envs >= 20:
            last, count = t + 1, 0
            key = jax.random.fold_in(jax.random.key(3), t + 1)
            now = episodes.live(episodes.begin(key, {}), {})
            while count < 4:
                now, reached = step(now, jnp.full(envs, 2))
                count += int(reached.ended.sum())
            state = live.state._replace(env=now.state.env, length=now.state.length)
            live = live._replace(state=state)
    assert len(returns) > 10
    found, _ = logged(published, {}, actions, params=2)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
