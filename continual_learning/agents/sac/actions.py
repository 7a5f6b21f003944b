"""The differences in SAC between continuous and discrete actions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Protocol

import jax
import jax.numpy as jnp

from continual_learning.agents.sac.losses import expected_soft_value, soft_value
from continual_learning.networks import Categorical, TanhGaussian

Critics = Callable[[jax.Array], jax.Array]
"""A function that returns the outputs of both critics: [batch, inputs] -> [2, batch, outputs]."""


class Problem(Protocol):
    """The sizes of an environment; if actions are discrete, it also has their number, `actions`."""

    @property
    def observation_size(self) -> int:
        """The number of entries of an observation."""
        ...

    @property
    def action_size(self) -> int:
        """The number of entries of an action."""
        ...


class Actions(Protocol):
    """A kind of actions. In the methods, `outputs` are those of the policy network, [batch, …].

    Attributes:
      like: the shape and type of one action.
      outputs: the number of outputs of the policy network.
      critic_outputs: the number of outputs of a critic.
      target_entropy: the default target of the policy's entropy.
      log_alpha_bounds: the default bounds of the logarithm of the temperature.
    """

    @property
    def like(self) -> jax.ShapeDtypeStruct:
        """The shape and type of one action."""
        ...

    @property
    def outputs(self) -> int:
        """The number of outputs of the policy network."""
        ...

    @property
    def critic_outputs(self) -> int:
        """The number of outputs of a critic."""
        ...

    @property
    def target_entropy(self) -> float:
        """The default target of the policy's entropy."""
        ...

    @property
    def log_alpha_bounds(self) -> tuple[float, float]:
        """The default bounds of the logarithm of the temperature."""
        ...

    def sample(self, key: jax.Array, outputs: jax.Array) -> jax.Array:
        """Draw actions [batch, …] from the policy."""
        ...

    def mode(self, outputs: jax.Array) -> jax.Array:
        """Return the actions of the deterministic policy, [batch, …]."""
        ...

    def read(self, observation: jax.Array, action: jax.Array) -> jax.Array:
        """Return the inputs of a critic that values actions, [batch, inputs]."""
        ...

    def of_action(self, said: jax.Array, action: jax.Array) -> jax.Array:
        """Return Q [batch] of actions, from the outputs of a critic [batch, critic_outputs]."""
        ...

    def soft_value(
        self,
        key: jax.Array,
        outputs: jax.Array,
        observation: jax.Array,
        critics: Critics,
        alpha: jax.Array,
    ) -> tuple[jax.Array, jax.Array]:
        """Return the soft values of observations and the policy's entropies, both [batch].

        Args:
          key: the key for drawn actions.
          outputs: the outputs of the policy network for the observations.
          observation: [batch, observation_size].
          critics: the critics.
          alpha: the temperature.
        """
        ...


@dataclasses.dataclass(frozen=True)
class Discrete:
    """A choice of one of `count` actions, int32 []; a critic reads observations and values all."""

    count: int

    @property
    def like(self) -> jax.ShapeDtypeStruct:
        """The shape and type of one action."""
        return jax.ShapeDtypeStruct((), jnp.int32)

    @property
    def outputs(self) -> int:
        """The number of outputs of the policy network: one logit per action."""
        return self.count

    @property
    def critic_outputs(self) -> int:
        """The number of outputs of a critic: one value per action."""
        return self.count

    @property
    def target_entropy(self) -> float:
        """Half of the largest entropy."""
        return 0.5 * math.log(self.count)

    @property
    def log_alpha_bounds(self) -> tuple[float, float]:
        """The bounds of the published code."""
        return -5.0, 2.0

    def sample(self, key: jax.Array, outputs: jax.Array) -> jax.Array:
        """Draw actions, int32 [batch]."""
        return Categorical.from_outputs(outputs).sample(key)

    def mode(self, outputs: jax.Array) -> jax.Array:
        """Return the likeliest actions, int32 [batch]."""
        return Categorical.from_outputs(outputs).mode()

    def read(self, observation: jax.Array, action: jax.Array) -> jax.Array:
        """Return the observations unchanged."""
        return observation

    def of_action(self, said: jax.Array, action: jax.Array) -> jax.Array:
        """Return Q [batch] of the actions."""
        # This sum avoids a gather, whose gradient would be a scatter.
        chosen = jnp.arange(self.count)[None] == action[:, None]
        return jnp.sum(jnp.where(chosen, said, 0.0), axis=1)

    def soft_value(
        self,
        key: jax.Array,
        outputs: jax.Array,
        observation: jax.Array,
        critics: Critics,
        alpha: jax.Array,
    ) -> tuple[jax.Array, jax.Array]:
        """Return expectations over all actions; no action is drawn."""
        policy = Categorical.from_outputs(outputs)
        return expected_soft_value(critics(observation), policy, alpha=alpha), policy.entropy()


@dataclasses.dataclass(frozen=True)
class Continuous:
    """Actions of `size` numbers in (−1, 1), float32 [size], which a critic reads as well."""

    size: int

    @property
    def like(self) -> jax.ShapeDtypeStruct:
        """The shape and type of one action."""
        return jax.ShapeDtypeStruct((self.size,), jnp.float32)

    @property
    def outputs(self) -> int:
        """The number of outputs of the policy network: mean and log σ of every entry."""
        return 2 * self.size

    @property
    def critic_outputs(self) -> int:
        """The number of outputs of a critic: the value."""
        return 1

    @property
    def target_entropy(self) -> float:
        """Minus the size of an action."""
        return -float(self.size)

    @property
    def log_alpha_bounds(self) -> tuple[float, float]:
        """Infinite bounds."""
        return -math.inf, math.inf

    def sample(self, key: jax.Array, outputs: jax.Array) -> jax.Array:
        """Draw actions, [batch, size]."""
        return TanhGaussian.from_outputs(outputs).sample(key)[0]

    def mode(self, outputs: jax.Array) -> jax.Array:
        """Return the actions of the means, [batch, size]."""
        return TanhGaussian.from_outputs(outputs).mode()

    def read(self, observation: jax.Array, action: jax.Array) -> jax.Array:
        """Return observations and actions, concatenated."""
        return jnp.concatenate([observation, action], axis=-1)

    def of_action(self, said: jax.Array, action: jax.Array) -> jax.Array:
        """Return Q [batch] of the actions that the critic has read."""
        return said[:, 0]

    def soft_value(
        self,
        key: jax.Array,
        outputs: jax.Array,
        observation: jax.Array,
        critics: Critics,
        alpha: jax.Array,
    ) -> tuple[jax.Array, jax.Array]:
        """Return estimates from one drawn action per observation, with −log π for the entropy."""
        action, log_prob = TanhGaussian.from_outputs(outputs).sample(key)
        q = critics(self.read(observation, action))[..., 0]
        return soft_value(q, log_prob, alpha=alpha), -log_prob


def actions_of(env: Problem) -> Actions:
    """Return the kind of an environment's actions, which are discrete if it has `actions`."""
    count = getattr(env, "actions", None)
    return Continuous(env.action_size) if count is None else Discrete(count)
