"""Environments of Gymnasium as tasks."""

import sys

import numpy as np
import pytest

from continual_learning.envs.host import GymnasiumStream, Pool

gymnasium = pytest.importorskip("gymnasium")
from gymnasium import spaces  # noqa: E402


class Echo(gymnasium.Env):
    """Shows the action it was given."""

    def __init__(self, action_space, observation_space):
        self.action_space, self.observation_space = action_space, observation_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.low, {}

    def step(self, action):
        assert self.action_space.contains(action)
        return np.ravel(action), 1.5, False, True, {"seen": 1}


LOW, HIGH = np.array([-2.0, 0.0], np.float32), np.array([2.0, 10.0], np.float32)


def box():
    return Echo(spaces.Box(LOW, HIGH), spaces.Box(-10, 10, (2,)))


def unbounded():
    return Echo(spaces.Box(-np.inf, np.inf, (2,)), spaces.Box(-10, 10, (2,)))


def test_actions_are_taken_to_the_bounds_and_never_beyond():
    stream = GymnasiumStream([box], metrics=("seen", "unseen"))
    assert (stream.observation_size, stream.action_size, stream.actions) == (2, 2, None)
    assert stream.names == ("box",) and stream.state_size == 0
    env = stream.make(0, seed=0)
    np.testing.assert_array_equal(env.reset(0), [-10, -10])
    for action, given in (((-1, -1), LOW), ((0, 0), (0, 5)), ((1, 1), HIGH), ((-3, 3), (-2, 10))):
        step = env.step(np.array(action, np.float32))
        np.testing.assert_array_equal(step.observation, given)
    assert (step.reward, step.terminated, step.truncated) == (1.5, False, True)
    assert step.metrics["seen"] == 1 and np.isnan(step.metrics["unseen"])


def test_discrete_actions_are_counted_from_zero():
    def discrete():
        return Echo(spaces.Discrete(3, start=5), spaces.Box(-10, 10, (1,)))

    stream = GymnasiumStream([discrete])
    assert (stream.actions, stream.action_size) == (3, 1)
    for action in range(3):
        assert stream.make(0, 0).step(np.int32(action)).observation == [5 + action]


def test_observations_are_flattened_by_gymnasiums_rules():
    stream = GymnasiumStream(["Blackjack-v1"])  # a Tuple of three Discrete: 32, 11 and 2
    assert (stream.observation_size, stream.actions) == (45, 2)
    seen = stream.make(0, 0).reset(1)
    assert seen.shape == (45,) and seen.sum() == 3 and set(seen) == {0, 1}


def test_an_episode_depends_on_its_seed_alone():
    env = GymnasiumStream(["Pendulum-v1"]).make(0, 0)
    first = env.reset(5)
    assert not np.array_equal(env.reset(6), first)
    np.testing.assert_array_equal(env.reset(5), first)


def test_tasks_must_agree_or_be_padded():
    with pytest.raises(
        ValueError,
        match=r"same observations, but Pendulum-v1 has 3, MountainCarContinuous-v0 has 2.*pad=True",
    ):
        GymnasiumStream(["Pendulum-v1", "MountainCarContinuous-v0"])
    stream = GymnasiumStream(["Pendulum-v1", "MountainCarContinuous-v0"], pad=True)
    assert stream.observation_size == 3
    seen = stream.make(1, 0).reset(0)
    assert seen.shape == (3,) and seen[0] != 0 and seen[2] == 0
    with pytest.raises(ValueError, match="same actions, but Pendulum-v1 has 1 numbers, Cart"):
        GymnasiumStream(["Pendulum-v1", "CartPole-v1"], pad=True)


def test_what_cannot_be_used_is_refused():
    with pytest.raises(ValueError, match=r"actions of unbounded must be .* finite bounds"):
        GymnasiumStream([unbounded])
    for nothing in ([], "Pendulum-v1"):
        with pytest.raises(ValueError, match="must be a list"):
            GymnasiumStream(nothing)


def test_without_gymnasium_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'plasticax\[gymnasium\]'"):
        GymnasiumStream(["Pendulum-v1"])


def test_functions_that_no_worker_could_import():
    """As those of a script or a notebook are."""
    names = {"gymnasium": gymnasium}
    exec("def slow():\n    return gymnasium.make('Pendulum-v1', g=1.0)", names)
    stream = GymnasiumStream([names["slow"], lambda: gymnasium.make("Pendulum-v1")])
    with Pool(stream, [0], 2, workers=1) as pool:
        for task, gravity in enumerate((1.0, 10.0)):
            _, sine, speed = np.moveaxis(pool.enter(task), -1, 0)
            step = pool.step(np.zeros((1, 2, 1), np.float32))
            expected = speed + 1.5 * gravity * sine * 0.05
            np.testing.assert_allclose(step.observation[..., 2], expected, rtol=1e-5)
        for _ in range(199):
            assert not step.ended.any()
            step = pool.step(np.zeros((1, 2, 1), np.float32))
        assert step.truncated.all() and (step.episode_length == 200).all()
