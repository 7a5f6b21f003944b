"""What differs in SAC between continuous and discrete actions."""

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
"""What both critics say of what they read: [batch, inputs] -> [2, batch, outputs]."""


class Problem(Protocol):
    """What is to be known of an environment; `actions` where there are discrete ones."""

    @property
    def observation_size(self) -> int:
        """Entries of an observation."""
        ...

    @property
    def action_size(self) -> int:
        """Entries of an action."""
        ...


class Actions(Protocol):
    """A kind of actions, of which `outputs` are what the policy network says, [batch, …].

    Attributes:
      like: shape and type of one action.
      outputs: of the policy network.
      critic_outputs: of a critic.
      target_entropy: what the entropy is tuned to unless told.
      log_alpha_bounds: least and largest logarithm of the temperature unless told.
    """

    @property
    def like(self) -> jax.ShapeDtypeStruct:
        """Shape and type of one action."""
        ...

    @property
    def outputs(self) -> int:
        """Outputs of the policy network."""
        ...

    @property
    def critic_outputs(self) -> int:
        """Outputs of a critic."""
        ...

    @property
    def target_entropy(self) -> float:
        """What the entropy is tuned to unless told."""
        ...

    @property
    def log_alpha_bounds(self) -> tuple[float, float]:
        """Least and largest logarithm of the temperature unless told."""
        ...

    def sample(self, key: jax.Array, outputs: jax.Array) -> jax.Array:
        """Actions [batch, …]."""
        ...

    def mode(self, outputs: jax.Array) -> jax.Array:
        """The actions of a deterministic policy, [batch, …]."""
        ...

    def read(self, observation: jax.Array, action: jax.Array) -> jax.Array:
        """What a critic reads to value actions, [batch, inputs]."""
        ...

    def of_action(self, said: jax.Array, action: jax.Array) -> jax.Array:
        """Q [batch] of actions, from what a critic said, [batch, critic_outputs]."""
        ...

    def soft_value(
        self,
        key: jax.Array,
        outputs: jax.Array,
        observation: jax.Array,
        critics: Critics,
        alpha: jax.Array,
    ) -> tuple[jax.Array, jax.Array]:
        """Soft values [batch] of observations, and the policy's entropies there [batch]."""
        ...


@dataclasses.dataclass(frozen=True)
class Discrete:
    """One of `count` actions, int32 []; a critic reads the observation and values all of them."""

    count: int

    @property
    def like(self) -> jax.ShapeDtypeStruct:
        """Shape and type of one action."""
        return jax.ShapeDtypeStruct((), jnp.int32)

    @property
    def outputs(self) -> int:
        """A logit per action."""
        return self.count

    @property
    def critic_outputs(self) -> int:
        """A value per action."""
        return self.count

    @property
    def target_entropy(self) -> float:
        """Half of the largest."""
        return 0.5 * math.log(self.count)

    @property
    def log_alpha_bounds(self) -> tuple[float, float]:
        """Those of the published code."""
        return -5.0, 2.0

    def sample(self, key: jax.Array, outputs: jax.Array) -> jax.Array:
        """Actions, int32 [batch]."""
        return Categorical.from_outputs(outputs).sample(key)

    def mode(self, outputs: jax.Array) -> jax.Array:
        """The likeliest actions, int32 [batch]."""
        return Categorical.from_outputs(outputs).mode()

    def read(self, observation: jax.Array, action: jax.Array) -> jax.Array:
        """The observation alone."""
        return observation

    def of_action(self, said: jax.Array, action: jax.Array) -> jax.Array:
        """Q [batch] of the actions."""
        # Not a gather, the gradient of which is a scatter.
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
        """Expected over all actions; nothing is drawn."""
        policy = Categorical.from_outputs(outputs)
        return expected_soft_value(critics(observation), policy, alpha=alpha), policy.entropy()


@dataclasses.dataclass(frozen=True)
class Continuous:
    """`size` numbers in (−1, 1), float32 [size]; a critic reads observation and action."""

    size: int

    @property
    def like(self) -> jax.ShapeDtypeStruct:
        """Shape and type of one action."""
        return jax.ShapeDtypeStruct((self.size,), jnp.float32)

    @property
    def outputs(self) -> int:
        """Mean and log σ of every entry."""
        return 2 * self.size

    @property
    def critic_outputs(self) -> int:
        """The value."""
        return 1

    @property
    def target_entropy(self) -> float:
        """Minus the size of an action."""
        return -float(self.size)

    @property
    def log_alpha_bounds(self) -> tuple[float, float]:
        """None."""
        return -math.inf, math.inf

    def sample(self, key: jax.Array, outputs: jax.Array) -> jax.Array:
        """Actions, [batch, size]."""
        return TanhGaussian.from_outputs(outputs).sample(key)[0]

    def mode(self, outputs: jax.Array) -> jax.Array:
        """The actions of the means, [batch, size]."""
        return TanhGaussian.from_outputs(outputs).mode()

    def read(self, observation: jax.Array, action: jax.Array) -> jax.Array:
        """Both, one after the other."""
        return jnp.concatenate([observation, action], axis=-1)

    def of_action(self, said: jax.Array, action: jax.Array) -> jax.Array:
        """Q [batch] of the actions, which the critic has read."""
        return said[:, 0]

    def soft_value(
        self,
        key: jax.Array,
        outputs: jax.Array,
        observation: jax.Array,
        critics: Critics,
        alpha: jax.Array,
    ) -> tuple[jax.Array, jax.Array]:
        """From one action drawn for each observation, whose −log π stands for the entropy."""
        action, log_prob = TanhGaussian.from_outputs(outputs).sample(key)
        q = critics(self.read(observation, action))[..., 0]
        return soft_value(q, log_prob, alpha=alpha), -log_prob


def actions_of(env: Problem) -> Actions:
    """Discrete where the environment says how many `actions` it has."""
    count = getattr(env, "actions", None)
    return Continuous(env.action_size) if count is None else Discrete(count)
