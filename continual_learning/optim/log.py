"""The log of a method's resets, as arrays in the optimizer state."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.optim.method import Amount
from continual_learning.optim.units import UnitGraph

BINS = 40
BIN_WIDTH = 0.1
"""Bins of the utility histogram: 0 to 4 in steps of 0.1; the last holds all higher ones too."""


class ResetLog(NamedTuple):
    """Arrays with a row per hidden layer, in the order of `graph.layers`.

    A `vmap` adds leading axes.

    Attributes:
      numbers: [layers, 7], the properties below. They are one array, since an accelerator copies
        every array that passes a branch unchanged.
      histogram: int32 [layers, BINS], normalized gradient utilities of all units in all steps
        since the start; [layers, 0] if switched off.
    """

    numbers: jax.Array
    histogram: jax.Array

    @property
    def resets(self) -> jax.Array:
        """Number of resets, [layers]."""
        return self.numbers[..., 0]

    @property
    def amount(self) -> jax.Array:
        """Units reset by the last reset (the sum of r of partial resets), [layers]."""
        return self.numbers[..., 1]

    @property
    def total(self) -> jax.Array:
        """Units reset since the start, [layers]."""
        return self.numbers[..., 2]

    @property
    def utility_mean(self) -> jax.Array:
        """Mean of the utilities on which the last reset was decided, [layers]."""
        return self.numbers[..., 3]

    @property
    def utility_min(self) -> jax.Array:
        """The smallest of these utilities, [layers]."""
        return self.numbers[..., 4]

    @property
    def utility_low(self) -> jax.Array:
        """Share of these utilities below the method's threshold, [layers]."""
        return self.numbers[..., 5]

    @property
    def skipped(self) -> jax.Array:
        """Number of observations that were ignored because they were not finite, [layers]."""
        return self.numbers[..., 6]


def empty_log(layers: int, dtype: Any, histogram: bool) -> ResetLog:
    """Return the log before the first step.

    Args:
      layers: number of hidden layers.
      dtype: the dtype of `numbers`.
      histogram: whether to keep the histogram.
    """
    return ResetLog(
        numbers=jnp.zeros((layers, 7), dtype),
        histogram=jnp.zeros((layers, BINS if histogram else 0), jnp.int32),
    )


def count_skipped(numbers: jax.Array, finite: jax.Array) -> jax.Array:
    """Count the layers that were not `finite`, bool [layers, 1]."""
    return numbers + jnp.where(finite, 0, _SKIPPED.astype(numbers.dtype))


def count_reset(
    graph: UnitGraph, numbers: jax.Array, amount: Amount, finite: jax.Array
) -> jax.Array:
    """Enter one reset into the log's numbers.

    Args:
      graph: the units.
      numbers: [layers, 7].
      amount: the reset.
      finite: bool [layers, 1]; layers where it is False were skipped.
    """
    reset = jnp.sum(jnp.where(graph.valid, amount.reset, 0), axis=1)
    low = (amount.utility < amount.threshold).astype(numbers.dtype)
    columns = [
        numbers[:, 0] + 1,
        reset,
        numbers[:, 2] + reset,
        graph.layer_mean(amount.utility)[:, 0],
        jnp.min(amount.utility, axis=1, initial=jnp.inf, where=graph.valid),
        graph.layer_mean(low)[:, 0],
        numbers[:, 6] + ~finite[:, 0],
    ]
    return jnp.stack([c.astype(numbers.dtype) for c in columns], axis=1)


def count_utilities(graph: UnitGraph, histogram: jax.Array, utility: jax.Array) -> jax.Array:
    """Add the utilities of one step to the histogram.

    Args:
      graph: the units.
      histogram: int32 [layers, BINS].
      utility: [layers, width], the normalized gradient utilities.
    """
    known = jnp.isfinite(utility) & graph.valid
    number = jnp.clip(utility / BIN_WIDTH, 0, BINS - 1).astype(jnp.int32)
    hits = (number[:, :, None] == np.arange(BINS)[None, None, :]) & known[:, :, None]
    return histogram + jnp.sum(hits, axis=1, dtype=jnp.int32)


_SKIPPED = np.eye(7)[[6]]
