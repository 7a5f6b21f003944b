"""A pool steps what it should, whoever works for it."""

import threading

import jax.numpy as jnp
import numpy as np
import pytest

from continual_learning.envs.host import Pool
from continual_learning.envs.host.pool import state_like
from continual_learning.envs.host.worker import episode_seed
from tests.envs.host.toys import CountingStream, gone

SEEDS, ENVIRONMENTS = (7, 11), 3


@pytest.fixture(scope="module")
def shared():
    """A pool for tests that enter a task first."""
    with Pool(CountingStream(), SEEDS, ENVIRONMENTS, workers=2) as pool:
        yield pool


def actions(reward=1.0, terminate=0.0):
    """[seeds, environments, 2]; numbers or arrays [seeds, environments]."""
    return np.stack(
        [np.broadcast_to(np.float32(each), (2, 3)) for each in (reward, terminate)], axis=-1
    )


def starts(task, episode):
    """The observation [2, 3, 4] at the start of an episode."""
    return np.array(
        [
            [[task % 2, seed, episode_seed(seed, n, task, episode) % 9973, 0] for n in range(3)]
            for seed in SEEDS
        ],
        np.float32,
    )


def counted(observation, count):
    return np.concatenate([observation[..., :3], np.full((2, 3, 1), count)], axis=-1)


def test_an_episode_step_by_step(shared):
    np.testing.assert_array_equal(shared.enter(0), starts(0, 0))
    pay = np.arange(6.0).reshape(2, 3)
    for count in (1, 2, 3):
        step = shared.step(actions(pay))
        np.testing.assert_array_equal(step.observation, counted(starts(0, 0), count))
        np.testing.assert_array_equal(step.reward, pay)
        np.testing.assert_array_equal(step.episode_return, count * pay)
        np.testing.assert_array_equal(step.episode_length, np.full((2, 3), count))
        np.testing.assert_array_equal(step.metrics["twice"], np.full((2, 3), 2 * count))
        assert not step.terminated.any()
        assert (step.truncated == (count == 3)).all() and (step.ended == step.truncated).all()
    # What was reached is not what is acted on next.
    np.testing.assert_array_equal(shared.observation, starts(0, 1))
    step = shared.step(actions(pay))
    np.testing.assert_array_equal(step.observation, counted(starts(0, 1), 1))
    np.testing.assert_array_equal(step.episode_return, pay)


def test_only_the_one_that_ended_restarts(shared):
    shared.enter(1)
    shared.step(actions())
    end = np.zeros((2, 3))
    end[1, 2] = 1.0
    step = shared.step(actions(terminate=end))
    assert (step.terminated == end.astype(bool)).all() and not step.truncated.any()
    expected = counted(starts(1, 0), 2)
    np.testing.assert_array_equal(step.observation, expected)
    expected[1, 2] = starts(1, 1)[1, 2]
    np.testing.assert_array_equal(shared.observation, expected)


def test_an_episode_that_terminates_is_not_truncated(shared):
    shared.enter(0)
    for last in (0.0, 0.0, 1.0):
        step = shared.step(actions(terminate=last))
    assert step.terminated.all() and not step.truncated.any()


def test_what_was_given_does_not_change_later(shared):
    first = shared.enter(0)
    step = shared.step(actions())
    kept = [np.copy(each) for each in (first, *step[:6], shared.observation)]
    seen = shared.observation
    shared.step(actions(2.0))
    for old, now in zip(kept, (first, *step[:6], seen), strict=True):
        np.testing.assert_array_equal(old, now)


def test_tasks_come_over_and_over_with_other_episodes(shared):
    np.testing.assert_array_equal(shared.enter(2), starts(2, 0))
    assert (shared.observation[..., 0] == 0).all()
    assert not np.array_equal(starts(2, 0)[..., 2], starts(0, 0)[..., 2])


def test_environments_of_a_seed_in_different_tasks(shared):
    shared.enter([0, 1, 0])
    for _ in range(3):
        step = shared.step(actions())
    np.testing.assert_array_equal(step.truncated, [[True, False, True]] * 2)


def test_episodes_have_different_seeds():
    everything = np.indices((4, 4, 4, 8)).reshape(4, -1).T.tolist()
    seeds = {episode_seed(*each) for each in everything}
    assert len(seeds) == len(everything)
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_workers_need_no_jax_and_one_thread(shared):
    shared.enter(0)
    step = shared.step(actions())
    assert not step.metrics["jax"].any()
    assert (step.metrics["cores"] == 1).all()


def walk(pool, steps, first=0):
    """Steps with actions that depend on their number; all that was said."""
    told = []
    for number in range(first, first + steps):
        rng = np.random.default_rng(number)
        step = pool.step(actions(rng.uniform(size=(2, 3)), rng.uniform(size=(2, 3)) * 0.7))
        told.append([*step[:6], *step.metrics.values(), pool.observation])
    return told


@pytest.mark.parametrize("workers", [1, 4, 99])
def test_resumed_as_if_never_stopped_by_any_number_of_workers(shared, workers):
    shared.enter(1)
    walk(shared, 4)
    state = shared.state()
    expected = walk(shared, 12, first=4)
    # As from a checkpoint, and through JAX, which has no 64-bit numbers here.
    saved = {name: np.asarray(jnp.asarray(array)) for name, array in state.items()}
    with Pool(CountingStream(), SEEDS, ENVIRONMENTS, workers) as pool:
        assert len(pool.pids) == min(workers, 6)
        pool.restore(saved)
        np.testing.assert_array_equal(pool.observation, state["observation"])
        found = walk(pool, 12, first=4)
    for some, others in zip(expected, found, strict=True):
        for one, other in zip(some, others, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_state_before_the_first_task_has_the_same_shapes(shared):
    with Pool(CountingStream(), SEEDS, ENVIRONMENTS, workers=1) as pool:
        before = pool.state()
        pool.restore(before)
        with pytest.raises(RuntimeError, match=r"no task has begun; call enter"):
            pool.step(actions())
    shared.enter(0)
    after, like = shared.state(), state_like(CountingStream(), len(SEEDS), ENVIRONMENTS)
    shapes = [
        {name: (x.shape, x.dtype) for name, x in each.items()} for each in (before, after, like)
    ]
    assert shapes[0] == shapes[1] == shapes[2]


def test_environments_that_cannot_be_saved_begin_a_new_episode():
    with Pool(CountingStream(state_size=0), SEEDS, ENVIRONMENTS, workers=1) as pool:
        pool.enter(1)
        pool.step(actions())
        pool.restore(pool.state())
        np.testing.assert_array_equal(pool.observation, starts(1, 1))
        np.testing.assert_array_equal(pool.step(actions()).episode_length, np.ones((2, 3)))


def test_a_state_of_another_pool_is_refused(shared):
    shared.enter(0)
    state = shared.state()
    with pytest.raises(ValueError, match="the state must be"):
        shared.restore({name: array[:1] for name, array in state.items()})
    with pytest.raises(ValueError, match="the state must be"):
        shared.restore({name: state[name] for name in state if name != "episode"})
    state["task"][0, 0] = -1
    with pytest.raises(ValueError, match="others are not"):
        shared.restore(state)


def test_a_step_in_two_parts(shared):
    shared.enter(0)
    shared.step_async(actions(3.0))
    for forbidden in (shared.state, lambda: shared.enter(0), lambda: shared.step(actions())):
        with pytest.raises(RuntimeError, match=r"call step_wait\(\) first"):
            forbidden()
    assert (shared.step_wait().reward == 3.0).all()
    with pytest.raises(RuntimeError, match="no step was begun"):
        shared.step_wait()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (np.zeros((2, 3)), r"must be float32 \[2, 3, 2\], got float64 \[2, 3\]"),
        (np.zeros((2, 3, 2), int), r"got int64 \[2, 3, 2\]"),
        (
            np.where(np.arange(12).reshape(2, 3, 2) == 9, np.nan, np.zeros(1, np.float32)),
            r"the actions \[ 0. nan\] for environment 1 of seed 11 are not finite",
        ),
    ],
)
def test_wrong_actions_are_refused(shared, wrong, told):
    shared.enter(0)
    with pytest.raises(ValueError, match=told):
        shared.step(wrong)


@pytest.mark.parametrize("wrong", [-1, 0.5, [0, 1]])
def test_wrong_tasks_are_refused(shared, wrong):
    with pytest.raises(ValueError, match=r"Pool: (a task must|tasks are counted)"):
        shared.enter(wrong)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (([], 1), "seeds must be"),
        (([-1], 1), "seeds must be"),
        (([0], 0), "environments must be at least 1"),
        (([0], 1, 0), "workers must be at least 1"),
    ],
)
def test_wrong_sizes_are_refused(args, told):
    with pytest.raises(ValueError, match=told):
        Pool(CountingStream(), *args)


def test_a_closed_pool_has_no_workers():
    pool = Pool(CountingStream(), [0], 2, workers=2)
    pids = pool.pids
    pool.close()
    pool.close()
    assert gone(pids, seconds=0)
    for use in (pool.state, pool.step_wait, lambda: pool.enter(0)):
        with pytest.raises(RuntimeError, match="closed"):
            use()


def test_a_forgotten_pool_has_no_workers():
    pids = Pool(CountingStream(), [0], 2, workers=2).pids
    assert gone(pids)


def test_a_large_stream_arrives():
    """Larger than what a socket holds while the worker starts."""
    stream = CountingStream()
    stream.data = np.random.default_rng(0).bytes(20_000_000)
    with Pool(stream, [7], 1) as pool:
        assert pool.enter(0).shape == (1, 1, 4)


def test_a_stream_that_cannot_be_sent_is_told():
    stream = CountingStream()
    stream.lock = threading.Lock()
    with pytest.raises(ValueError, match=r"stream cannot be sent to workers: .*lock"):
        Pool(stream, [0], 1)
