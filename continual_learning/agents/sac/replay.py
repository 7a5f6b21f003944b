"""A ring buffer of transitions on the device."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class Experience(NamedTuple):
    """Transitions; all arrays are [n, …].

    Attributes:
      observation: float32 [n, observation_size], the observations acted on.
      action: [n, …].
      reward: float32 [n].
      terminated: bool [n], whether the state reached has no future; a time limit does not count.
      reached: float32 [n, observation_size], the observations reached, before any restart.
    """

    observation: jax.Array
    action: jax.Array
    reward: jax.Array
    terminated: jax.Array
    reached: jax.Array


class ReplayState(NamedTuple):
    """The stored transitions, in ring order: row i % capacity has transition number i.

    This order lets a checkpoint write only the rows that were added since the checkpoint before
    (`Trainer.ring`).

    Attributes:
      rows: an `Experience` of arrays [capacity, …], with observations as they are stored.
      added: int32 [], the number of transitions ever added.
      cleared: int32 [], the number of transitions that were added before the last `clear`.
    """

    rows: Any
    added: jax.Array
    cleared: jax.Array


@dataclasses.dataclass(frozen=True)
class Replay:
    """A ring buffer that keeps the latest transitions and draws from them.

    The observation reached is stored beside the one acted on, although the next row mostly repeats
    it, so that restarts need no special case. A transition with observations of 1,000 zeros and
    ones takes 250 bytes for these, as bits, and 259 bytes with action, reward and `terminated`.

    Attributes:
      capacity: the number of transitions kept.
      observation_size: the number of entries of an observation.
      binary: whether observations are zeros and ones, which are stored as bits.
    """

    capacity: int
    observation_size: int
    binary: bool = False

    def __post_init__(self):
        if self.capacity < 1:
            raise ValueError(f"The capacity of a replay must be at least 1, got {self.capacity}.")

    def start(self, action: jax.ShapeDtypeStruct) -> ReplayState:
        """Return an empty buffer for actions like this one."""

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
        # These must be two arrays, since a buffer can be donated only once.
        return ReplayState(rows, jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))

    def add(self, state: ReplayState, new: Experience) -> ReplayState:
        """Add n ≤ capacity transitions, which replace the oldest ones if the buffer is full."""
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
        """Return the number of transitions to draw from, int32 []."""
        return jnp.minimum(state.added - state.cleared, self.capacity)

    def sample(self, state: ReplayState, key: jax.Array, shape: tuple[int, ...]) -> Experience:
        """Draw transitions uniformly.

        Args:
          state: the buffer. If it is empty, the result has no meaning.
          key: the key of the draw.
          shape: the shape of the result.

        Returns:
          Transitions [*shape, …].
        """
        age = jax.random.randint(key, shape, 0, jnp.maximum(self.size(state), 1))
        at = (state.added - 1 - age) % self.capacity
        rows = jax.tree.map(lambda x: x.at[at].get(mode="promise_in_bounds"), state.rows)
        return self._restored(rows)

    def clear(self, state: ReplayState, where: jax.Array) -> ReplayState:
        """Remove all transitions if `where` (bool []) is true."""
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
