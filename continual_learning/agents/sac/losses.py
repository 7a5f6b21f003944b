"""The losses of soft actor-critic (Haarnoja et al. 2018, arXiv 1812.05905).

For discrete actions, they are those of Christodoulou (2019, arXiv 1910.07207).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from continual_learning.networks import Categorical
from continual_learning.networks.selecting import lesser

Number = float | jax.Array


def soft_value(q: jax.Array, log_prob: jax.Array, *, alpha: Number) -> jax.Array:
    """Return the soft value [batch] of states, estimated from one action: min Q − α·log π.

    Args:
      q: [2, batch], the values of the actions, by both critics.
      log_prob: [batch], the log densities of the actions.
      alpha: the temperature.
    """
    return lesser(q[0], q[1]) - alpha * log_prob


def expected_soft_value(q: jax.Array, policy: Categorical, *, alpha: Number) -> jax.Array:
    """Return the soft value [batch] of states, expected over all actions: Σ π·(min Q − α·log π).

    Args:
      q: [2, batch, actions].
      policy: the distributions over actions, [batch, actions].
      alpha: the temperature.
    """
    return policy.mean(soft_value(q, policy.log_probs, alpha=alpha))


def critic_targets(
    reward: jax.Array, terminated: jax.Array, next_value: jax.Array, *, discount: Number
) -> jax.Array:
    """Return the targets [batch] of the critics: r + γ·V of the state reached.

    No gradient flows through them.

    Args:
      reward: [batch].
      terminated: bool [batch], whether the state reached has no future. If the time limit ended
        the episode, the state has a future, and its value counts.
      next_value: [batch], the soft values of the states reached, by the target critics.
      discount: γ.
    """
    future = jnp.where(terminated, 0.0, next_value)
    return jax.lax.stop_gradient(reward + discount * future)


def critic_loss(q: jax.Array, targets: jax.Array) -> jax.Array:
    """Return half of the mean squared error, []; both arguments are [batch]."""
    return 0.5 * jnp.mean(jnp.square(q - targets))


def alpha_loss(log_alpha: jax.Array, entropy: jax.Array, *, target_entropy: Number) -> jax.Array:
    """Return the loss of the temperature, []: α·(entropy − target).

    Its minimization raises α if the entropy is below its target.

    Args:
      log_alpha: [].
      entropy: [batch], the entropies of the policy, or −log π of actions. No gradient flows
        through them.
      target_entropy: the target of the mean entropy.
    """
    return jnp.exp(log_alpha) * (jnp.mean(jax.lax.stop_gradient(entropy)) - target_entropy)
