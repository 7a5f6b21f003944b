"""Running mean and variance of observations."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

MIN_STD = 1e-6
"""The smallest standard deviation, which prevents a division by 0 for an entry that is constant."""


class Normalizer(NamedTuple):
    """Statistics of all observations so far.

    float32 is accurate enough for long runs, because an update adds a batch, not a sample. The
    count of a batch of n has a relative error of at most 2⁻²⁴, and it is lost only if there are
    already 2²⁴·n observations. With batches of 196,608, the count is exact up to 10¹². Deviations
    are small, since they are taken from the mean so far, and two passes over the batch prevent
    that a large mean cancels a small variance.

    Attributes:
      samples: float32 [], the number of observations.
      mean: float32 [size].
      summed_variance: float32 [size], the sum of the squared deviations from the mean.
    """

    samples: jax.Array
    mean: jax.Array
    summed_variance: jax.Array

    @classmethod
    def start(cls, size: int) -> Normalizer:
        """Return the statistics of no observations, which leave observations unchanged."""
        # These must be two arrays, since a buffer can be donated only once.
        mean, summed_variance = jnp.zeros(size, jnp.float32), jnp.zeros(size, jnp.float32)
        return cls(jnp.zeros((), jnp.float32), mean, summed_variance)

    @property
    def std(self) -> jax.Array:
        """The standard deviations, float32 [size]; 1 before the first observation."""
        std = jnp.sqrt(self.summed_variance / jnp.maximum(self.samples, 1))
        return jnp.where(self.samples == 0, 1, jnp.maximum(std, MIN_STD))

    def update(self, observations: jax.Array) -> Normalizer:
        """Add a batch of observations [n, size] (Chan et al. 1979)."""
        n = observations.shape[0]
        samples = self.samples + n
        share = n / samples
        deviations = observations - self.mean[None]
        shift = jnp.mean(deviations, axis=0)
        within = jnp.sum(jnp.square(deviations - shift[None]), axis=0)
        between = jnp.square(shift) * (self.samples * share)
        summed_variance = self.summed_variance + within + between
        return Normalizer(samples, self.mean + shift * share, summed_variance)

    def normalize(self, observations: jax.Array, clip: float | None = None) -> jax.Array:
        """Normalize observations […, size] to mean 0 and standard deviation 1, and clip to ±`clip`.

        They are not clipped if `clip` is None.
        """
        mean, std = (jnp.broadcast_to(x, observations.shape) for x in (self.mean, self.std))
        normal = (observations - mean) / std
        return normal if clip is None else jnp.clip(normal, -clip, clip)
