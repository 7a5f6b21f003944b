"""CBP and ReDo look at activations: they are taken out of the model, which stays as it is.

Needs the `flax` extra.
"""

import flax.linen as nn
import jax
import optax

from continual_learning.diagnostics import plasticity_metrics
from continual_learning.optim import CBP, ReDo, ResetMethod, attach_reset_method, trace_units

METHODS: dict[str, ResetMethod] = {
    "CBP": CBP(replacement_rate=0.01, maturity=5),
    "ReDo": ReDo(threshold=0.8, every=5),
}


class CNN(nn.Module):
    """A convolution, pooling, a dense layer and an output layer; it returns no features."""

    @nn.compact
    def __call__(self, x):
        """Images [batch, height, width, channels] to logits [batch, 10]."""
        x = nn.max_pool(nn.relu(nn.Conv(16, (3, 3))(x)), (2, 2), (2, 2))
        x = nn.relu(nn.Dense(64)(x.reshape(x.shape[0], -1)))
        return nn.Dense(10)(x)


def main(steps: int = 20) -> dict[str, dict[str, float]]:
    """Trains on random images with each method; units reset, by method and layer."""
    model = CNN()
    images = jax.random.normal(jax.random.key(1), (32, 8, 8, 1))
    labels = jax.random.randint(jax.random.key(2), (32,), 0, 10)
    start = model.init(jax.random.key(0), images)
    graph = trace_units(model.apply, start, images[:1])
    forward = graph.with_features(model.apply)

    def loss(params):
        logits, features, preactivations = forward(params, images)
        each = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
        return each.mean(), (features, preactivations)

    resets = {}
    for name, method in METHODS.items():
        tx = attach_reset_method(tx=optax.adam(1e-3), reset_method=method, units=graph)

        @jax.jit
        def step(params, state, tx=tx):
            grads, (features, preactivations) = jax.grad(loss, has_aux=True)(params)
            updates, state = tx.update(grads, state, params, features=features)
            metrics = plasticity_metrics(features, preactivations)
            return optax.apply_updates(params, updates), state, metrics

        params, state, metrics = step(start, tx.init(start))
        for _ in range(steps - 1):
            params, state, metrics = step(params, state)
        dormant = float(metrics["dormant_ratio"]["total"])
        resets[name] = dict(zip(graph.names, state.log.total.tolist(), strict=True))
        print(f"{name}: {dormant:.0%} of the units dormant, units reset: {resets[name]}")
    return resets


if __name__ == "__main__":
    main()
