"""Distributions over actions."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from continual_learning.networks.selecting import clipped

_LOG_TWO_PI = math.log(2 * math.pi)


class DiagonalGaussian(NamedTuple):
    """Independent normal distributions, one per entry of an action, which are not squashed.

    Attributes:
      mean: […, action_size].
      std: […, action_size].
    """

    mean: jax.Array
    std: jax.Array

    @classmethod
    def from_outputs(cls, outputs: jax.Array, *, min_std: float = 1e-3) -> DiagonalGaussian:
        """Return the distribution for a network's outputs: means, then raw standard deviations.

        Args:
          outputs: […, 2·action_size].
          min_std: added to the softplus of the raw standard deviations.
        """
        mean, raw = jnp.split(outputs, 2, axis=-1)
        return cls(mean, jax.nn.softplus(raw) + min_std)

    def sample(self, key: jax.Array) -> jax.Array:
        """Draw an action, […, action_size]."""
        return self.mean + self.std * jax.random.normal(key, self.mean.shape, self.mean.dtype)

    def log_prob(self, action: jax.Array) -> jax.Array:
        """Return the log density of an action: […, action_size] -> […]."""
        z = (action - self.mean) / self.std
        return jnp.sum(-0.5 * (jnp.square(z) + _LOG_TWO_PI) - jnp.log(self.std), axis=-1)

    def entropy(self) -> jax.Array:
        """Return the differential entropy, […]."""
        return jnp.sum(0.5 * (1 + _LOG_TWO_PI) + jnp.log(self.std), axis=-1)

    def kl(self, other: DiagonalGaussian) -> jax.Array:
        """Return KL(self ‖ other), […]."""
        ratio = self.std / other.std
        z = (self.mean - other.mean) / other.std
        each = 0.5 * (jnp.square(ratio) + jnp.square(z) - 1) - jnp.log(ratio)
        return jnp.sum(each, axis=-1)


LOG_STD = (-20.0, 2.0)
"""Bounds of the logarithm of a squashed Gaussian's standard deviation."""


class TanhGaussian(NamedTuple):
    """Independent normal distributions, squashed to (−1, 1) by tanh.

    Attributes:
      mean: […, action_size], before the tanh.
      log_std: […, action_size], before the tanh.
    """

    mean: jax.Array
    log_std: jax.Array

    @classmethod
    def from_outputs(cls, outputs: jax.Array) -> TanhGaussian:
        """Return the distribution for a network's outputs […, 2·action_size]: means, then log σ.

        The log σ are clipped to `LOG_STD`.
        """
        mean, log_std = jnp.split(outputs, 2, axis=-1)
        return cls(mean, clipped(log_std, *LOG_STD))

    def sample(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Draw an action […, action_size] and return it with its log density […].

        The density is computed from the number before the tanh, which cannot be recovered from an
        action near ±1.
        """
        noise = jax.random.normal(key, self.mean.shape, self.mean.dtype)
        raw = self.mean + jnp.exp(self.log_std) * noise
        log_normal = -0.5 * (jnp.square(noise) + _LOG_TWO_PI) - self.log_std
        # This is log(1 − tanh²) in a form that does not underflow.
        log_slope = 2 * (math.log(2) - raw - jax.nn.softplus(-2 * raw))
        return jnp.tanh(raw), jnp.sum(log_normal - log_slope, axis=-1)

    def mode(self) -> jax.Array:
        """Return the action of the mean, […, action_size]."""
        return jnp.tanh(self.mean)


class Categorical(NamedTuple):
    """A distribution over a finite set of actions.

    Attributes:
      log_probs: […, actions].
    """

    log_probs: jax.Array

    @classmethod
    def from_outputs(cls, outputs: jax.Array) -> Categorical:
        """Return the distribution for the logits that a network returns, […, actions]."""
        return cls(jax.nn.log_softmax(outputs))

    @property
    def probs(self) -> jax.Array:
        """Probabilities, […, actions]."""
        return jnp.exp(self.log_probs)

    def sample(self, key: jax.Array) -> jax.Array:
        """Draw an action, int32 […]."""
        return jax.random.categorical(key, self.log_probs).astype(jnp.int32)

    def mode(self) -> jax.Array:
        """Return the likeliest action, int32 […]; the first of several."""
        return jnp.argmax(self.log_probs, axis=-1).astype(jnp.int32)

    def log_prob(self, action: jax.Array) -> jax.Array:
        """Return the log probability of an action: int32 […] -> […]."""
        # A gather would have a scatter as its gradient.
        chosen = jax.nn.one_hot(action, self.log_probs.shape[-1], dtype=bool)
        return jnp.sum(jnp.where(chosen, self.log_probs, 0.0), axis=-1)

    def mean(self, values: jax.Array) -> jax.Array:
        """Return the expectation […] of values of the actions, […, actions]."""
        return jnp.sum(self.probs * values, axis=-1)

    def entropy(self) -> jax.Array:
        """Return the Shannon entropy in nats, […]."""
        return -self.mean(self.log_probs)
