"""Generalized advantage estimation (Schulman et al. 2016, arXiv 1506.02438)."""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

Number = float | jax.Array
Truncation = Literal["mask", "bootstrap"]


class Estimates(NamedTuple):
    """The estimates from which actor and critic learn.

    Attributes:
      targets: [T, envs], TD(λ) returns, the targets of the values.
      advantages: [T, envs].
    """

    targets: jax.Array
    advantages: jax.Array


def gae(
    rewards: jax.Array,
    values: jax.Array,
    next_values: jax.Array,
    terminated: jax.Array,
    truncated: jax.Array,
    *,
    discount: Number,
    gae_lambda: Number,
    truncation: Truncation = "mask",
) -> Estimates:
    """Return the value targets and the advantages of a rollout, time-major.

    An advantage uses the target of the next state, as in Brax: r + γ·target(t+1) − v. No estimate
    reaches across the end of an episode.

    Args:
      rewards: [T, envs].
      values: [T, envs], the values of the states acted in.
      next_values: [T, envs], the values of the states reached, before any restart. They are not
        read where an episode terminated and, with "mask", where it was truncated. With "mask",
        `shifted(values, last)` is therefore enough and needs no pass through the network.
      terminated: bool [T, envs], whether the state reached has no future.
      truncated: bool [T, envs], whether the time limit ended the episode.
      discount: γ.
      gae_lambda: λ.
      truncation: the treatment of the last step of a truncated episode. With "mask", the agent
        learns nothing from it (advantage 0, target equal to the value), as in Brax. With
        "bootstrap", the value of the state reached replaces the missing rewards.
    """
    masked = truncated if truncation == "mask" else jnp.zeros_like(truncated)
    future, weight = discount * (1.0 - terminated), 1.0 - masked
    onward = future * gae_lambda * (1.0 - truncated)
    # Values that are not read may be NaN, and 0 times NaN is NaN.
    next_values = jnp.where(terminated | masked, 0.0, next_values)
    errors = weight * (rewards + future * next_values - values)

    def back(corrections: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple:
        error, onward = step
        corrections = error + onward * corrections
        return corrections, corrections

    _, corrections = jax.lax.scan(back, jnp.zeros_like(errors[0]), (errors, onward), reverse=True)
    targets = values + corrections
    next_targets = jnp.where(truncated, next_values, shifted(targets, next_values[-1]))
    advantages = weight * (rewards + future * next_targets - values)
    return Estimates(targets, advantages)


def shifted(values: jax.Array, last: jax.Array) -> jax.Array:
    """Return the values [T, envs] of the next steps, with `last` [envs] at the end."""
    return jnp.concatenate([values[1:], last[None]])
