"""Epochs of updates on the minibatches of a rollout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from continual_learning.agents.common.network import Loss, Network, descend
from continual_learning.agents.ppo.actions import Actions
from continual_learning.agents.ppo.losses import policy_loss, value_loss
from continual_learning.optim import UnitGraph

Params = dict[str, Any]
"""A tree for every network: {"policy": …, "value": …}."""


class Samples(NamedTuple):
    """The samples from which minibatches are taken.

    Attributes:
      observation: [n, observation_size], as the networks see it.
      action: [n, size], the results of `Actions.kept`.
      log_prob: [n], the log densities of the actions when they were taken.
      advantage: [n].
      target: [n], the targets of the values.
    """

    observation: jax.Array
    action: jax.Array
    log_prob: jax.Array
    advantage: jax.Array
    target: jax.Array

    def pack(self) -> jax.Array:
        """Join all columns into one array, so that one gather takes a minibatch."""
        single = jnp.stack([self.log_prob, self.advantage, self.target], axis=1)
        return jnp.concatenate([self.observation, self.action, single], axis=1)

    @classmethod
    def unpack(cls, rows: jax.Array, observation_size: int) -> Samples:
        """Split rows that `pack` joined into columns."""
        observation, action = rows[:, :observation_size], rows[:, observation_size:-3]
        return cls(observation, action, rows[:, -3], rows[:, -2], rows[:, -1])


def losses(
    networks: Mapping[str, Network],
    actions: Actions,
    *,
    clip_ratio: float | jax.Array,
    entropy_coefficient: float | jax.Array,
    value_coefficient: float,
    normalize_advantages: bool,
) -> dict[str, Loss]:
    """Return the losses of the networks, which also return features for the reset methods.

    Args:
      networks: {"policy", "value"}.
      actions: the kind of actions.
      clip_ratio: ε of the clipped surrogate.
      entropy_coefficient: the weight of the entropy bonus.
      value_coefficient: the weight of the value loss.
      normalize_advantages: whether to normalize the advantages of a minibatch.
    """

    def of_policy(params: Any, samples: Samples) -> Any:
        outputs, features, _ = networks["policy"].forward(params, samples.observation)
        loss, metrics = policy_loss(
            actions.policy(outputs),
            actions.taken(samples.action),
            samples.log_prob,
            samples.advantage,
            clip_ratio=clip_ratio,
            entropy_coefficient=entropy_coefficient,
            normalize=normalize_advantages,
        )
        return loss, (metrics, features)

    def of_value(params: Any, samples: Samples) -> Any:
        outputs, features, _ = networks["value"].forward(params, samples.observation)
        loss = value_loss(outputs[:, 0], samples.target, value_coefficient=value_coefficient)
        return loss, ({}, features)

    return {"policy": of_policy, "value": of_value}


def improve(
    losses: Mapping[str, Loss],
    optimizers: Mapping[str, optax.GradientTransformationExtraArgs],
    params: Params,
    states: Params,
    samples: Samples,
    key: jax.Array,
    *,
    epochs: int,
    minibatches: int,
    task: jax.Array,
    scored: Mapping[str, UnitGraph] | None = None,
) -> tuple[Params, Params, dict[str, jax.Array]]:
    """Train every network by its own loss and optimizer, in a new order in every epoch.

    Args:
      losses: the losses of the networks, functions of (params, samples).
      optimizers: the optimizers of the networks, which get `features=` for their reset methods.
      params: the parameters of the networks.
      states: the states of the optimizers.
      samples: [n, …].
      key: the key of the orders.
      epochs: the number of passes over the samples.
      minibatches: the number of minibatches per epoch, which divides n.
      task: int32 [], the number of the task, for reset methods that act when it changes.
      scored: the units of the networks whose reset methods need per-sample scores.

    Returns:
      The parameters, the states of the optimizers, and means over all updates: "NAME_loss",
      "NAME_gradient_norm" before any clipping, and the metrics of the losses. In addition
      "initial_kl" and "initial_clip_fraction", the values of the first minibatch before its
      update: the policy is still the one that acted, so both are 0 unless the stored log densities
      are not those of the stored actions.
    """
    packed, size = samples.pack(), samples.observation.shape[1]

    def update(carry: Any, rows: jax.Array) -> Any:
        params, states = map(dict, carry)
        # A permutation has only rows that exist.
        batch = packed.at[rows].get(mode="promise_in_bounds", unique_indices=True)
        batch, metrics = Samples.unpack(batch, size), {}
        for name, tx in optimizers.items():
            params[name], states[name], found = descend(
                losses[name],
                tx,
                params[name],
                states[name],
                batch,
                task=task,
                scored=(scored or {}).get(name),
            )
            own = ("loss", "gradient_norm")
            metrics |= {f"{name}_{key}" if key in own else key: v for key, v in found.items()}
        return (params, states), metrics

    def epoch(carry: Any, number: jax.Array) -> Any:
        order = jax.random.permutation(jax.random.fold_in(key, number), len(packed))
        return jax.lax.scan(update, carry, order.reshape(minibatches, -1))

    (params, states), metrics = jax.lax.scan(epoch, (params, states), jnp.arange(epochs))
    initial = {f"initial_{name}": metrics[name][0, 0] for name in ("kl", "clip_fraction")}
    return params, states, {**jax.tree.map(jnp.mean, metrics), **initial}
