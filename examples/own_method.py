"""A reset method of your own: one class, used like any other.

It resets a random share of the units of every layer, now and then: a baseline that every utility
should beat.
"""

import jax
import jax.numpy as jnp
import optax

from continual_learning.optim import (
    Amount,
    ResetMethod,
    attach_reset_method,
    periodic,
    reset_method,
)


@reset_method
class RandomResets(ResetMethod):
    """Every `every` steps, replaces each unit with probability `rate`."""

    rate: float | jax.Array = 0.01
    every: int | jax.Array = 1000

    def due(self, state, t):
        """When to reset."""
        return periodic(t, self.every)

    def amount(self, graph, state, step):
        """Which units, and how far: [layers, width] in [0, 1]."""
        chosen = jax.random.bernoulli(step.key, self.rate, graph.shape)
        return Amount(reset=chosen, utility=jnp.ones(graph.shape))


tx = attach_reset_method(tx=optax.adam(1e-3), reset_method=RandomResets(rate=0.5, every=10))


if __name__ == "__main__":
    init = jax.nn.initializers.lecun_normal()
    params = [init(jax.random.key(i), shape) for i, shape in enumerate([(4, 32), (32, 2)])]
    state = tx.init(params)
    update = jax.jit(tx.update)
    for _ in range(101):
        grads = jax.tree.map(jnp.ones_like, params)
        updates, state = update(grads, state, params)
        params = optax.apply_updates(params, updates)
    print(f"{int(state.log.total[0])} units were reset in {int(state.log.resets[0])} resets")
