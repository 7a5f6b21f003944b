"""The differences in PPO between continuous and discrete actions."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from continual_learning.networks.distributions import Categorical, DiagonalGaussian

Distribution = DiagonalGaussian | Categorical


class Actions(Protocol):
    """A kind of actions. A rollout keeps them as rows of numbers, [batch, size].

    Attributes:
      outputs: the number of outputs of the policy network.
      size: the number of entries of an action as it is kept.
    """

    @property
    def outputs(self) -> int:
        """The number of outputs of the policy network."""
        ...

    @property
    def size(self) -> int:
        """The number of entries of an action as it is kept."""
        ...

    def policy(self, outputs: jax.Array) -> Distribution:
        """Return the distribution for outputs of the policy network, […, outputs]."""
        ...

    def kept(self, action: jax.Array) -> jax.Array:
        """Return actions in the form in which they are kept, float32 [batch, size]."""
        ...

    def taken(self, kept: jax.Array) -> jax.Array:
        """Return the actions from the results of `kept`."""
        ...


@dataclasses.dataclass(frozen=True)
class Continuous:
    """Numbers without bounds, float32 [size]."""

    size: int

    @property
    def outputs(self) -> int:
        """The number of outputs: mean and deviation of every entry."""
        return 2 * self.size

    def policy(self, outputs: jax.Array) -> DiagonalGaussian:
        """Return a Gaussian that is not squashed."""
        return DiagonalGaussian.from_outputs(outputs)

    def kept(self, action: jax.Array) -> jax.Array:
        """Return the actions unchanged."""
        return action

    def taken(self, kept: jax.Array) -> jax.Array:
        """Return the actions unchanged."""
        return kept


@dataclasses.dataclass(frozen=True)
class Discrete:
    """One of `outputs` actions, int32 []."""

    outputs: int
    size: int = 1

    def policy(self, outputs: jax.Array) -> Categorical:
        """Return the distribution with these logits."""
        return Categorical.from_outputs(outputs)

    def kept(self, action: jax.Array) -> jax.Array:
        """Return the numbers of the actions, [batch, 1]."""
        return action[..., None].astype(jnp.float32)

    def taken(self, kept: jax.Array) -> jax.Array:
        """Return the actions, int32 [batch]."""
        return kept[..., 0].astype(jnp.int32)


def actions_of(env: Any) -> Actions:
    """Return the kind of an environment's actions, which are discrete if it has `actions`."""
    count = getattr(env, "actions", None)
    return Continuous(env.action_size) if count is None else Discrete(count)
