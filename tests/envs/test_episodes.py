"""Environments side by side: time limits, restarts, returns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from continual_learning.envs import Episodes
from tests.envs.toys import Counter, usual

KEY = jax.random.key(0)


def run(episodes, steps, task=None, state=None):
    """(last state, timesteps [steps, envs], observations acted on [steps, envs, 1])."""
    task = task or usual(episodes.env)
    state = episodes.begin(KEY, task) if state is None else state

    def step(live, t):
        action = jnp.full((episodes.count, 1), t, jnp.float32)
        after, timestep = episodes.step(live, action, task)
        return after, (timestep, live.observation)

    live, found = jax.lax.scan(step, episodes.live(state, task), jnp.arange(steps))
    return live.state, *found


def test_the_time_limit_truncates_and_the_final_observation_is_kept():
    episodes = Episodes(Counter(), count=2, length=3)
    _, step, acted_on = run(episodes, 7)
    assert step.truncated[:, 0].tolist() == [False, False, True, False, False, True, False]
    assert not step.terminated.any()
    assert step.observation[:, 0, 0].tolist() == [1, 2, 3, 1, 2, 3, 1]  # 3 is seen, not skipped
    assert acted_on[:, 0, 0].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert step.episode_return[:, 0].tolist() == [1, 3, 6, 1, 3, 6, 1]
    assert step.episode_length[:, 0].tolist() == [1, 2, 3, 1, 2, 3, 1]
    assert step.metrics["action"][:, 1].tolist() == list(range(7))


def test_the_end_of_the_environment_terminates_even_at_the_time_limit():
    _, step, _ = run(Episodes(Counter(end=3), count=1, length=3), 6)
    assert step.terminated[:, 0].tolist() == [False, False, True] * 2
    assert not step.truncated.any()
    assert step.ended.sum() == 2


def test_returns_go_on_over_a_boundary_between_two_calls():
    episodes = Episodes(Counter(), count=2, length=5)
    _, whole, _ = run(episodes, 12)
    state, first, _ = run(episodes, 3)
    kept = jax.tree.map(lambda x: x, state)
    _, second, _ = run(episodes, 9, state=kept)
    for name in ("episode_return", "episode_length", "truncated", "observation"):
        both = np.concatenate([getattr(first, name), getattr(second, name)])
        np.testing.assert_array_equal(both, getattr(whole, name))


def test_a_restart_leads_to_the_same_first_state_or_to_a_fresh_one():
    for restart, same in (("first", True), ("fresh", False)):
        episodes = Episodes(Counter(random=True), count=3, length=2, restart=restart)
        _, _, acted_on = run(episodes, 5)
        first, second, third = acted_on[0], acted_on[2], acted_on[4]
        assert len(np.unique(np.asarray(first))) == 3
        assert bool(jnp.all(first == second) and jnp.all(first == third)) is same
        assert bool(jnp.any(first != second)) is not same


def test_the_last_return_of_every_environment():
    episodes = Episodes(Counter(), count=2, length=3)
    state, _, _ = run(episodes, 2)
    assert np.isnan(state.latest).all()
    state, _, _ = run(episodes, 5)
    assert state.latest.tolist() == [6, 6] and state.total.tolist() == [3, 3]


def test_tasks_reach_every_environment():
    episodes = Episodes(Counter(), count=2, length=2)
    _, _, acted_on = run(episodes, 4, usual(episodes.env, start=7.0))
    assert acted_on[:, 1, 0].tolist() == [7, 8, 7, 8]


@pytest.mark.parametrize("wrong", [{"count": 0}, {"length": 0}, {"restart": "last"}])
def test_wrong_settings(wrong):
    with pytest.raises(ValueError, match=f"Episodes: {next(iter(wrong))} must be"):
        Episodes(Counter(), **({"count": 1} | wrong))
