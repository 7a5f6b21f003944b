"""Environments that give something else than their stream promises: never silently."""

import numpy as np
import pytest

from continual_learning.envs.errors import WorkerError
from continual_learning.envs.host import Pool
from tests.envs.host.toys import SPOIL, SpoilingStream

NAN, INF = np.nan, np.inf


def actions(*rewards):
    return np.array([[[reward, 0.0] for reward in rewards]], np.float32)


def spoil(**what):
    """The second environment spoils the third step of its first episode."""
    with Pool(SpoilingStream(**what), [3], 2, workers=2) as pool:
        pool.enter(1)
        pool.step(actions(1.0, 1.0))
        pool.step(actions(1.0, 1.0))
        pool.step(actions(1.0, SPOIL))


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ({"reward": NAN}, "The reward nan or"),
        ({"reward": -INF}, "The reward -inf or"),
        ({"reward": 1e39}, "The reward inf or"),
        ({"observation": np.array([1, NAN, 3, 4])}, r"the observation \[ 1. nan  3.  4.\] is not"),
        ({"observation": np.zeros(1)}, r"observation must be numbers \[4\], got float64 \[1\]"),
        ({"observation": np.zeros(3)}, r"observation must be numbers \[4\], got float64 \[3\]"),
        ({"observation": np.zeros((1, 4))}, r"numbers \[4\], got float64 \[1, 4\]"),
        ({"observation": 0.5}, r"numbers \[4\], got float64 \[\]"),
        ({"observation": None}, r"numbers \[4\], got None"),
        ({"observation": ["1", "2", "3", "4"]}, r"numbers \[4\], got \['1', '2'"),
        ({"observation": [[1, 2], [3]]}, r"numbers \[4\], got \[\[1, 2\], \[3\]\]"),
        ({"reward": None}, "reward must be a number, got None"),
        ({"reward": "1.5"}, "reward must be a number, got '1.5'"),
        ({"reward": np.zeros(2)}, r"reward must be a number, got float64 \[2\]"),
        ({"terminated": "no"}, "terminated must be a number, got 'no'"),
        ({"metrics": {"twice": None, "jax": 0.0, "cores": 1.0}}, r"metrics must be numbers \[3\]"),
    ],
)
def test_a_step_that_is_no_step_is_refused_by_name(what, told):
    place = "It is long, environment 1 of seed 3, step 3 of episode 0."
    with pytest.raises(WorkerError, match=rf"(?s){told}.*{place}"):
        spoil(**what)


@pytest.mark.parametrize("first", [None, np.zeros(3), np.full(4, NAN)])
def test_a_first_observation_that_is_none_is_refused_by_name(first):
    place = "It is short, environment 0 of seed 3, reset of episode 0."
    for mode in ("refuse", "end"):
        with (
            Pool(SpoilingStream(reset=first), [3], 1, nonfinite=mode) as pool,
            pytest.raises(WorkerError, match=rf"(?s)observation.*{place}"),
        ):
            pool.enter(0)


@pytest.mark.parametrize("what", [{"reward": NAN}, {"observation": np.array([1, 2, INF, 4])}])
def test_or_it_ends_its_episode(what):
    with Pool(SpoilingStream(**what), [3], 2, workers=2, nonfinite="end") as pool:
        pool.enter(1)
        step = pool.step(actions(1.0, 1.0))
        assert not step.invalid.any()
        before = pool.observation
        step = pool.step(actions(1.0, SPOIL))
        np.testing.assert_array_equal(step.invalid, [[False, True]])
        np.testing.assert_array_equal(step.truncated, [[False, True]])
        assert not step.terminated.any()
        np.testing.assert_array_equal(step.reward, [[1.0, 0.0]])
        np.testing.assert_array_equal(step.metrics["twice"], [[4.0, 0.0]])
        np.testing.assert_array_equal(step.episode_return, [[2.0, 1.0]])
        np.testing.assert_array_equal(step.observation[0, 1], before[0, 1])
        np.testing.assert_array_equal(pool.observation[..., 3], [[2, 0]])
        assert pool.observation[0, 1, 2] != before[0, 1, 2]
        step = pool.step(actions(1.0, 1.0))
        assert not step.invalid.any()
        np.testing.assert_array_equal(step.episode_return, [[3.0, 1.0]])


def test_what_cannot_be_asked():
    with pytest.raises(ValueError, match="nonfinite must be 'refuse' or 'end', got 'no'"):
        Pool(SpoilingStream(), [3], 2, nonfinite="no")
