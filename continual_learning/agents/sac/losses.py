"""Losses of soft actor-critic (Haarnoja et al. 2018; with discrete actions Christodoulou 2019)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from continual_learning.networks import Categorical
from continual_learning.networks.selecting import lesser

Number = float | jax.Array


def soft_value(q: jax.Array, log_prob: jax.Array, *, alpha: Number) -> jax.Array:
    """Value of a state with its entropy bonus, from one action: min Q − α·log π.

    Args:
      q: [2, batch], of the action, by both critics.
      log_prob: [batch], its log density.
      alpha: the temperature.

    Returns:
      [batch].
    """
    return lesser(q[0], q[1]) - alpha * log_prob


def expected_soft_value(q: jax.Array, policy: Categorical, *, alpha: Number) -> jax.Array:
    """The same, expected over all actions: Σ π·(min Q − α·log π).

    Args:
      q: [2, batch, actions].
      policy: [batch, actions].
      alpha: the temperature.

    Returns:
      [batch].
    """
    return policy.mean(soft_value(q, policy.log_probs, alpha=alpha))


def critic_targets(
    reward: jax.Array, terminated: jax.Array, next_value: jax.Array, *, discount: Number
) -> jax.Array:
    """What a critic should say of what was done: r + γ·V of the state reached.

    Args:
      reward: [batch].
      terminated: bool [batch], the state reached has no future. One where the time limit ended
        the episode has: its value counts.
      next_value: [batch], soft values of the states reached, by the target critics.
      discount: γ.

    Returns:
      [batch], through which no gradient flows.
    """
    future = jnp.where(terminated, 0.0, next_value)
    return jax.lax.stop_gradient(reward + discount * future)


def critic_loss(q: jax.Array, targets: jax.Array) -> jax.Array:
    """Half the mean squared error, []; both arguments [batch]."""
    return 0.5 * jnp.mean(jnp.square(q - targets))


def alpha_loss(log_alpha: jax.Array, entropy: jax.Array, *, target_entropy: Number) -> jax.Array:
    """α·(entropy − target), whose gradient raises α where the entropy is below its target.

    Args:
      log_alpha: [].
      entropy: [batch], of the policy, or −log π of an action; no gradient flows through it.
      target_entropy: what its mean should be.

    Returns:
      [].
    """
    return jnp.exp(log_alpha) * (jnp.mean(jax.lax.stop_gradient(entropy)) - target_entropy)
