"""Distributions over actions."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

_LOG_TWO_PI = math.log(2 * math.pi)


class DiagonalGaussian(NamedTuple):
    """Independent normal distributions, one per entry of an action; not squashed.

    Attributes:
      mean: […, action_size].
      std: […, action_size].
    """

    mean: jax.Array
    std: jax.Array

    @classmethod
    def from_outputs(cls, outputs: jax.Array, *, min_std: float = 1e-3) -> DiagonalGaussian:
        """From what a network says: means, then what makes the standard deviations.

        Args:
          outputs: […, 2·action_size].
          min_std: added to the softplus of the second half.
        """
        mean, raw = jnp.split(outputs, 2, axis=-1)
        return cls(mean, jax.nn.softplus(raw) + min_std)

    def sample(self, key: jax.Array) -> jax.Array:
        """An action, […, action_size]."""
        return self.mean + self.std * jax.random.normal(key, self.mean.shape, self.mean.dtype)

    def log_prob(self, action: jax.Array) -> jax.Array:
        """Log density of an action: […, action_size] -> […]."""
        z = (action - self.mean) / self.std
        return jnp.sum(-0.5 * (jnp.square(z) + _LOG_TWO_PI) - jnp.log(self.std), axis=-1)

    def entropy(self) -> jax.Array:
        """Differential entropy, […]."""
        return jnp.sum(0.5 * (1 + _LOG_TWO_PI) + jnp.log(self.std), axis=-1)

    def kl(self, other: DiagonalGaussian) -> jax.Array:
        """KL(self ‖ other), […]."""
        ratio = self.std / other.std
        z = (self.mean - other.mean) / other.std
        each = 0.5 * (jnp.square(ratio) + jnp.square(z) - 1) - jnp.log(ratio)
        return jnp.sum(each, axis=-1)
