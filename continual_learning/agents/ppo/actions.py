"""What differs in PPO between continuous and discrete actions."""

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
      outputs: of the policy network.
      size: entries of an action as it is kept.
    """

    @property
    def outputs(self) -> int:
        """Outputs of the policy network."""
        ...

    @property
    def size(self) -> int:
        """Entries of an action as it is kept."""
        ...

    def policy(self, outputs: jax.Array) -> Distribution:
        """Return the distribution that the policy network says, […, outputs]."""
        ...

    def kept(self, action: jax.Array) -> jax.Array:
        """Return actions as they are kept, float32 [batch, size]."""
        ...

    def taken(self, kept: jax.Array) -> jax.Array:
        """Return what `kept` made as actions again."""
        ...


@dataclasses.dataclass(frozen=True)
class Continuous:
    """Numbers without bounds, float32 [size]."""

    size: int

    @property
    def outputs(self) -> int:
        """Mean and deviation of every entry."""
        return 2 * self.size

    def policy(self, outputs: jax.Array) -> DiagonalGaussian:
        """Return a Gaussian that is not squashed."""
        return DiagonalGaussian.from_outputs(outputs)

    def kept(self, action: jax.Array) -> jax.Array:
        """Return the actions."""
        return action

    def taken(self, kept: jax.Array) -> jax.Array:
        """Return the actions."""
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
    """Return the kind of an environment's actions: discrete where it says how many there are."""
    count = getattr(env, "actions", None)
    return Continuous(env.action_size) if count is None else Discrete(count)
