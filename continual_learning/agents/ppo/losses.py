"""The losses of proximal policy optimization (Schulman et al. 2017, arXiv 1707.06347)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from continual_learning.networks.distributions import Categorical, DiagonalGaussian
from continual_learning.networks.selecting import clipped, lesser

Number = float | jax.Array

LARGEST = 40.0
"""The largest logarithm of a ratio of densities."""


def policy_loss(
    policy: DiagonalGaussian | Categorical,
    action: jax.Array,
    old_log_prob: jax.Array,
    advantage: jax.Array,
    *,
    clip_ratio: Number,
    entropy_coefficient: Number,
    normalize: bool = True,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Return the loss of the policy: the clipped surrogate with an entropy bonus.

    Args:
      policy: the distributions of all samples, [batch, …].
      action: the actions taken, [batch, action_size], or int32 [batch] if they are discrete.
      old_log_prob: [batch], their log densities under the policy that took them.
      advantage: [batch].
      clip_ratio: the distance from 1 at which ratios of densities are clipped.
      entropy_coefficient: the weight of the bonus.
      normalize: whether advantages get mean 0 and standard deviation 1 over the batch.

    Returns:
      The loss [], and {"entropy", "kl", "clip_fraction"}, all []. "kl" is the estimate
      E[ratio − 1 − log ratio] of KL(old ‖ new), which is never negative.
    """
    if normalize:
        advantage = (advantage - jnp.mean(advantage)) / (jnp.std(advantage) + 1e-8)
    # A larger ratio may overflow in float32, and one sample would make all weights NaN.
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
    """Return the loss of the values: ½ · coefficient · mean squared error, [].

    Args:
      values: [batch].
      targets: [batch].
      value_coefficient: the coefficient.
    """
    return 0.5 * value_coefficient * jnp.mean(jnp.square(values - targets))


def explained_variance(values: jax.Array, targets: jax.Array) -> jax.Array:
    """Return the share of the targets' variance that the values explain.

    It is 1 − Var(targets − values) / Var(targets).

    Args:
      values: any shape.
      targets: the same shape.

    Returns:
      The share [], at most 1; NaN if the targets do not vary.
    """
    variance = jnp.var(targets)
    share = 1 - jnp.var(targets - values) / jnp.where(variance == 0, 1, variance)
    return jnp.where(variance == 0, jnp.nan, share)
