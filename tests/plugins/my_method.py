"""A reset method in one file, as a user writes it: it resets units at random."""

import jax
import jax.numpy as jnp

from continual_learning.optim import Amount, ResetMethod, periodic, register, reset_method


@reset_method
class RandomResets(ResetMethod):
    """Replace each unit with probability `rate`, every `every` steps."""

    rate: float | jax.Array = 0.05
    every: int | jax.Array = 20

    def due(self, state, t):
        """Return whether this step resets."""
        return periodic(t, self.every)

    def amount(self, graph, state, step):
        """Return which units are reset."""
        chosen = jax.random.bernoulli(step.key, self.rate, graph.shape)
        return Amount(reset=chosen, utility=jnp.ones(graph.shape))


register("random_resets", RandomResets, label="Random Resets", color="#123456")
