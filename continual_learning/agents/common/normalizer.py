"""Running mean and variance of observations."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

MIN_STD = 1e-6
"""Keeps an entry that never changed from being divided by 0."""


class Normaliser(NamedTuple):
    """Statistics of all observations so far.

    float32 is enough for long runs: batches are added, not samples. A batch of n is counted
    with a relative error of at most 2⁻²⁴, and is lost only beside 2²⁴·n observations: with
    batches of 196,608 the count is exact up to 10¹². Deviations are from the mean so far, hence
    small, and two passes over the batch keep a large mean from cancelling a small variance.

    Attributes:
      samples: float32 [], how many.
      mean: float32 [size].
      summed_variance: float32 [size], sum of the squared deviations from the mean.
    """

    samples: jax.Array
    mean: jax.Array
    summed_variance: jax.Array

    @classmethod
    def start(cls, size: int) -> Normaliser:
        """Of no observations: leaves what it is given as it is."""
        # Two arrays, not one twice: a buffer can be donated only once.
        mean, summed_variance = jnp.zeros(size, jnp.float32), jnp.zeros(size, jnp.float32)
        return cls(jnp.zeros((), jnp.float32), mean, summed_variance)

    @property
    def std(self) -> jax.Array:
        """Standard deviations, float32 [size]; 1 before the first observation."""
        std = jnp.sqrt(self.summed_variance / jnp.maximum(self.samples, 1))
        return jnp.where(self.samples == 0, 1, jnp.maximum(std, MIN_STD))

    def update(self, observations: jax.Array) -> Normaliser:
        """With a batch [n, size] more (Chan et al. 1979)."""
        n = observations.shape[0]
        samples = self.samples + n
        share = n / samples
        deviations = observations - self.mean[None]
        shift = jnp.mean(deviations, axis=0)
        within = jnp.sum(jnp.square(deviations - shift[None]), axis=0)
        between = jnp.square(shift) * (self.samples * share)
        summed_variance = self.summed_variance + within + between
        return Normaliser(samples, self.mean + shift * share, summed_variance)

    def normalise(self, observations: jax.Array, clip: float | None = None) -> jax.Array:
        """[…, size] with mean 0 and standard deviation 1, clipped to ±`clip` if that is given."""
        mean, std = (jnp.broadcast_to(x, observations.shape) for x in (self.mean, self.std))
        normal = (observations - mean) / std
        return normal if clip is None else jnp.clip(normal, -clip, clip)
