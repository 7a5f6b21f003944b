"""A program with a ring in its state, whose every row is known, and how its states are compared."""

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.agents.sac.replay import Replay
from continual_learning.studies.store.store import Store
from tests.studies.toy_study import rows_of

LANES = 2
REPLAY = Replay(capacity=10, observation_size=3)


class Program:
    """Adds and clears rows, each of which tells its number; saves states into a store."""

    def __init__(self, folder, replay=REPLAY):
        self.store = Store.open(folder)
        self.folder = folder / "checkpoints" / "sac"
        self.capacity = replay.capacity
        start = replay.start(jax.ShapeDtypeStruct((), jnp.int32))
        blank = jax.tree.map(lambda x: np.repeat(np.asarray(x)[None], LANES, axis=0), start)
        self.like = {"replay": blank, "w": np.zeros((LANES, 2), np.float32)}
        self.state = jax.tree.map(np.copy, self.like)
        self.chunk, self.offset = 0, 0.0

    def add(self, *counts):
        rows, added, _ = self.state["replay"]
        for lane, count in enumerate(counts):
            for number in range(added[lane], added[lane] + count):
                for x in rows:
                    x[lane, number % self.capacity] = number + 1 + self.offset
            added[lane] += count

    def clear(self, lane):
        self.state["replay"].cleared[lane] = self.state["replay"].added[lane]

    def save(self, ring="replay"):
        # On a device, as a program has it; the chunk's number stands for all other leaves.
        self.state["w"][:] = self.chunk
        self.store.write_part("sac", self.chunk, rows_of(self.chunk))
        self.store.save("sac", self.chunk, jax.tree.map(jnp.asarray, self.state), ring=ring)
        self.chunk += 1

    def restore(self):
        found = self.store.restore("sac", self.like)
        assert found is not None
        return found

    def segments(self):
        return sorted(f.name for f in self.folder.glob("*.rows"))

    def numbers(self, chunk, lane=0):
        """What is in the file of a segment."""
        file = self.folder / f"{chunk:06d}.rows" / f"lane-{lane:04d}.npz"
        with np.load(file, allow_pickle=False) as rows:
            assert {len(rows[name]) for name in rows} == {len(rows["replay/rows/reward"])}
            return (rows["replay/rows/reward"] - 1).astype(int).tolist()


def live(state):
    """By lane, the number of the first row that can be read, and all rows from there on."""
    rows, added, cleared = state["replay"]
    for lane in range(LANES):
        capacity = rows.reward.shape[1]
        first = max(cleared[lane], added[lane] - capacity)
        at = np.arange(first, added[lane]) % capacity
        yield first, jax.tree.map(lambda x, lane=lane, at=at: x[lane, at], rows)


def check_same(one, other):
    for (first, rows), (expected, as_before) in zip(live(one), live(other), strict=True):
        assert first == expected
        jax.tree.map(np.testing.assert_array_equal, rows, as_before)
    for name in ("added", "cleared"):
        a, b = (getattr(state["replay"], name) for state in (one, other))
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype
    np.testing.assert_array_equal(one["w"], other["w"])


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
