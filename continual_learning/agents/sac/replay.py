"""A ring buffer of transitions on the device."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class Experience(NamedTuple):
    """Transitions; everything [n, …].

    Attributes:
      observation: float32 [n, observation_size], acted on.
      action: [n, …].
      reward: float32 [n].
      terminated: bool [n], what was reached has no future; a time limit does not say so.
      reached: float32 [n, observation_size], before any restart.
    """

    observation: jax.Array
    action: jax.Array
    reward: jax.Array
    terminated: jax.Array
    reached: jax.Array


class ReplayState(NamedTuple):
    """What is stored, in ring order: transition number i ever added is in row i % capacity.

    A checkpoint so writes only the rows that were added since the one before (`Trainer.ring`).

    Attributes:
      rows: an `Experience` of arrays [capacity, …], observations as they are stored.
      added: int32 [], transitions ever added.
      cleared: int32 [], how many of these came before the last `clear`.
    """

    rows: Any
    added: jax.Array
    cleared: jax.Array


@dataclasses.dataclass(frozen=True)
class Replay:
    """Keeps the latest transitions and draws from them.

    What was reached is stored beside what was acted on, though it is mostly the next row's: no
    restart then needs a case of its own. Of 1,000 zeros and ones a transition so takes 250 bytes
    as bits, and 259 with an action, a reward and its end.

    Attributes:
      capacity: transitions kept.
      observation_size: entries of an observation.
      binary: whether observations are zeros and ones, which are stored as bits.
    """

    capacity: int
    observation_size: int
    binary: bool = False

    def __post_init__(self):
        if self.capacity < 1:
            raise ValueError(f"The capacity of a replay must be at least 1, got {self.capacity}.")

    def start(self, action: jax.ShapeDtypeStruct) -> ReplayState:
        """Nothing yet, with room for actions like this one."""

        def blank(*shape: int, dtype: Any = jnp.float32) -> jax.Array:
            return jnp.zeros((self.capacity, *shape), dtype)

        size = -(-self.observation_size // 8) if self.binary else self.observation_size
        dtype = jnp.uint8 if self.binary else jnp.float32
        rows = Experience(
            blank(size, dtype=dtype),
            blank(*action.shape, dtype=action.dtype),
            blank(),
            blank(dtype=bool),
            blank(size, dtype=dtype),
        )
        # Two arrays, not one twice: a buffer can be donated only once.
        return ReplayState(rows, jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))

    def add(self, state: ReplayState, new: Experience) -> ReplayState:
        """With n more transitions, in place of the oldest where it is full; n ≤ capacity."""
        n = len(new.reward)
        if n > self.capacity:
            raise ValueError(f"{n} transitions do not fit a replay of {self.capacity}.")
        at = (state.added + jnp.arange(n, dtype=jnp.int32)) % self.capacity

        def put(rows: jax.Array, new: jax.Array) -> jax.Array:
            new = new.astype(rows.dtype)
            return rows.at[at].set(new, mode="promise_in_bounds", unique_indices=True)

        rows = jax.tree.map(put, state.rows, self._stored(new))
        return state._replace(rows=rows, added=state.added + n)

    def size(self, state: ReplayState) -> jax.Array:
        """How many transitions there are to draw from, int32 []."""
        return jnp.minimum(state.added - state.cleared, self.capacity)

    def sample(self, state: ReplayState, key: jax.Array, shape: tuple[int, ...]) -> Experience:
        """Transitions [*shape, …], each drawn uniformly from all there are.

        There must be one: of an empty replay this is rows that mean nothing.
        """
        age = jax.random.randint(key, shape, 0, jnp.maximum(self.size(state), 1))
        at = (state.added - 1 - age) % self.capacity
        rows = jax.tree.map(lambda x: x.at[at].get(mode="promise_in_bounds"), state.rows)
        return self._restored(rows)

    def clear(self, state: ReplayState, where: jax.Array) -> ReplayState:
        """Without what was added so far, if `where` (bool [])."""
        return state._replace(cleared=jnp.where(where, state.added, state.cleared))

    def _stored(self, new: Experience) -> Experience:
        if not self.binary:
            return new
        bits = [jnp.packbits(x != 0, axis=-1) for x in (new.observation, new.reached)]
        return new._replace(observation=bits[0], reached=bits[1])

    def _restored(self, rows: Experience) -> Experience:
        if not self.binary:
            return rows

        def unpack(bits: jax.Array) -> jax.Array:
            return jnp.unpackbits(bits, axis=-1, count=self.observation_size).astype(jnp.float32)

        return rows._replace(observation=unpack(rows.observation), reached=unpack(rows.reached))
