"""What a replay keeps, draws and forgets."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from continual_learning.agents.sac.replay import Experience, Replay

ACTION = jax.ShapeDtypeStruct((2,), jnp.float32)
SIZE = 11  # not whole bytes


def experience(first, n):
    """Transitions number first, first + 1, …; all that they hold tells which one it is."""
    number = np.arange(first, first + n)
    bits = (number[:, None] >> np.arange(SIZE)) & 1
    return Experience(
        jnp.asarray(bits, jnp.float32),
        jnp.asarray(np.stack([number, -number], axis=1), jnp.float32),
        jnp.asarray(number, jnp.float32),
        jnp.asarray(number % 3 == 0),
        jnp.asarray(1 - bits, jnp.float32),
    )


def check(batch):
    """Every drawn transition is whole: all of its parts are of the same number."""
    for number in np.unique(np.asarray(batch.reward, int)):
        rows = np.asarray(batch.reward) == number
        for part, expected in zip(batch, experience(number, 1), strict=True):
            part = np.asarray(part)[rows]
            np.testing.assert_array_equal(part, np.broadcast_to(expected, part.shape))
            assert part.dtype == expected.dtype


def drawn(replay, state):
    batch = replay.sample(state, jax.random.key(0), (4, 100))
    assert batch.observation.shape == (4, 100, SIZE)
    check(batch)
    return set(np.asarray(batch.reward, int).ravel().tolist())


@pytest.mark.parametrize("binary", [False, True])
def test_keeps_the_latest_across_the_end_of_the_ring(binary):
    replay = Replay(10, SIZE, binary)
    state = replay.start(ACTION)
    assert replay.size(state) == 0
    seen = []
    for first in range(0, 36, 4):  # 4 does not divide 10
        state = replay.add(state, experience(first, 4))
        seen.append(drawn(replay, state))
    assert seen[0] == set(range(4)) and seen[1] == set(range(8))
    assert seen[2] == set(range(2, 12)) and seen[-1] == set(range(26, 36))
    assert (int(state.added), int(replay.size(state))) == (36, 10)
    # In ring order, so that new rows can be appended to what was stored before.
    np.testing.assert_array_equal(state.rows.reward[np.arange(26, 36) % 10], np.arange(26, 36))


def test_cleared():
    replay = Replay(10, SIZE)
    state = replay.add(replay.start(ACTION), experience(0, 7))
    assert replay.size(replay.clear(state, jnp.array(False))) == 7
    state = replay.clear(state, jnp.array(True))
    assert (int(replay.size(state)), int(state.added)) == (0, 7)
    state = replay.add(state, experience(7, 2))
    assert drawn(replay, state) == {7, 8}
    state = replay.add(replay.add(state, experience(9, 9)), experience(18, 2))
    assert drawn(replay, state) == set(range(10, 20))


def test_draws_are_uniform():
    replay = Replay(5, SIZE)
    state = replay.add(replay.start(ACTION), experience(0, 5))
    state = replay.add(state, experience(5, 3))
    numbers = replay.sample(state, jax.random.key(1), (50_000,)).reward
    count = np.bincount(np.asarray(numbers, int))[3:]
    assert len(count) == 5
    np.testing.assert_allclose(count, 10_000, rtol=0.05)


@hypothesis.settings(max_examples=8)
@hypothesis.given(st.sampled_from([1, 7, 8, 25]), st.integers(0, 2**31))
def test_bits_are_exact(size, seed):
    seen = jnp.asarray(np.random.default_rng(seed).integers(0, 2, (2, 6, size)), jnp.float32)
    replay = Replay(6, size, binary=True)
    new = Experience(seen[0], jnp.arange(6), jnp.arange(6.0), jnp.zeros(6, bool), seen[1])
    state = replay.add(replay.start(jax.ShapeDtypeStruct((), jnp.int32)), new)
    assert state.rows.observation.shape == (6, -(-size // 8))
    assert state.rows.observation.dtype == jnp.uint8
    batch = replay.sample(state, jax.random.key(seed), (30,))
    np.testing.assert_array_equal(batch.observation, seen[0][batch.action])
    np.testing.assert_array_equal(batch.reached, seen[1][batch.action])


def test_lanes_and_donation():
    """Two lanes of which one is cleared; the buffers are used again."""
    replay = Replay(10, SIZE, binary=True)
    state = jax.vmap(lambda _: replay.start(ACTION))(jnp.arange(2))

    def step(state, new, where):
        return replay.add(replay.clear(state, where), new)

    step = jax.jit(jax.vmap(step, (0, None, 0)), donate_argnums=0)
    state = step(state, experience(0, 4), jnp.array([False, False]))
    before = state
    state = step(state, experience(4, 4), jnp.array([False, True]))
    assert before.rows.observation.is_deleted()
    lanes = [jax.tree.map(lambda x, i=i: x[i], state) for i in range(2)]
    assert [drawn(replay, lane) for lane in lanes] == [set(range(8)), set(range(4, 8))]


def test_what_cannot_be():
    with pytest.raises(ValueError, match="capacity of a replay must be at least 1, got 0"):
        Replay(0, SIZE)
    replay = Replay(3, SIZE)
    with pytest.raises(ValueError, match="4 transitions do not fit a replay of 3"):
        replay.add(replay.start(ACTION), experience(0, 4))
