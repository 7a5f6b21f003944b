"""Generalised advantage estimation (Schulman et al. 2016)."""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

Number = float | jax.Array
Truncation = Literal["mask", "bootstrap"]


class Estimates(NamedTuple):
    """What actor and critic learn from.

    Attributes:
      targets: [T, envs], TD(λ) returns, what the values should have been.
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
    """Value targets and advantages of a rollout, time-major.

    An advantage is measured against the target of the next state, as in Brax:
    r + γ·target(t+1) − v. Nothing is carried over the end of an episode.

    Args:
      rewards: [T, envs].
      values: [T, envs], of the states acted in.
      next_values: [T, envs], of the states reached, before any restart. Where an episode
        terminated they are not read, nor with "mask" where one was truncated: `shifted(values,
        last)` will do there, which costs no pass through the network.
      terminated: bool [T, envs], the state reached has no future.
      truncated: bool [T, envs], the time limit ended the episode.
      discount: γ.
      gae_lambda: λ.
      truncation: what is done with the last step of a truncated episode. "mask": nothing is
        learnt from it (advantage 0, target its own value), as in Brax; "bootstrap": the value of
        the state reached stands for what would have come.
    """
    masked = truncated if truncation == "mask" else jnp.zeros_like(truncated)
    future, weight = discount * (1.0 - terminated), 1.0 - masked
    onward = future * gae_lambda * (1.0 - truncated)
    # What is not read may be anything, and 0 times NaN is NaN.
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
    """The values of one step later: [T, envs] and, for the end, [envs] -> [T, envs]."""
    return jnp.concatenate([values[1:], last[None]])
