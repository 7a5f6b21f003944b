"""Losses of proximal policy optimisation (Schulman et al. 2017)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from continual_learning.networks.distributions import Categorical, DiagonalGaussian
from continual_learning.networks.selecting import clipped, lesser

Number = float | jax.Array

LARGEST = 40.0
"""Of the logarithm of a ratio of densities."""


def policy_loss(
    policy: DiagonalGaussian | Categorical,
    action: jax.Array,
    old_log_prob: jax.Array,
    advantage: jax.Array,
    *,
    clip_ratio: Number,
    entropy_coefficient: Number,
    normalise: bool = True,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The clipped surrogate with an entropy bonus.

    Args:
      policy: of each sample, [batch, …].
      action: [batch, action_size], or int32 [batch] where actions are discrete; what was done.
      old_log_prob: [batch], its log density under the policy that did it.
      advantage: [batch].
      clip_ratio: how far from 1 a ratio of densities still counts.
      entropy_coefficient: weight of the bonus.
      normalise: whether advantages get mean 0 and standard deviation 1 over the batch.

    Returns:
      The loss [], and {"entropy", "kl", "clip_fraction"}, each []. "kl" is the estimate
      E[ratio − 1 − log ratio] of KL(old ‖ new), which is never below 0.
    """
    if normalise:
        advantage = (advantage - jnp.mean(advantage)) / (jnp.std(advantage) + 1e-8)
    # Beyond this a ratio overflows in float32, and one sample would make all weights NaN.
    log_ratio = clipped(policy.log_prob(action) - old_log_prob, -LARGEST, LARGEST)
    ratio = jnp.exp(log_ratio)
    near = clipped(ratio, 1 - clip_ratio, 1 + clip_ratio)
    surrogate = jnp.mean(lesser(ratio * advantage, near * advantage))
    entropy = jnp.mean(policy.entropy())
    metrics = {
        "entropy": entropy,
        "kl": jnp.mean(ratio - 1 - log_ratio),
        "clip_fraction": jnp.mean((jnp.abs(ratio - 1) > clip_ratio).astype(ratio.dtype)),
    }
    return -surrogate - entropy_coefficient * entropy, metrics


def value_loss(
    values: jax.Array, targets: jax.Array, *, value_coefficient: Number = 0.5
) -> jax.Array:
    """½ · coefficient · mean squared error, []; both arguments [batch]."""
    return 0.5 * value_coefficient * jnp.mean(jnp.square(values - targets))


def explained_variance(values: jax.Array, targets: jax.Array) -> jax.Array:
    """Share of the targets' variance that the values explain.

    It is 1 − Var(targets − values) / Var(targets).

    Args:
      values: any shape.
      targets: the same shape.

    Returns:
      [], at most 1; NaN where the targets do not vary.
    """
    variance = jnp.var(targets)
    share = 1 - jnp.var(targets - values) / jnp.where(variance == 0, 1, variance)
    return jnp.where(variance == 0, jnp.nan, share)
