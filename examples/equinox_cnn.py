"""CPR in an Equinox training loop: three lines, whatever the network looks like.

Needs the `equinox` extra.
"""

import equinox as eqx
import jax
import optax

from continual_learning import CPR, attach_reset_method, trace_units  # 1


class ResidualCNN(eqx.Module):
    """Two convolutions with a residual sum, pooling, a dense layer and an output layer."""

    conv: eqx.nn.Conv2d
    residual: eqx.nn.Conv2d
    pool: eqx.nn.MaxPool2d
    dense: eqx.nn.Linear
    norm: eqx.nn.LayerNorm
    output: eqx.nn.Linear

    def __init__(self, key: jax.Array):
        keys = jax.random.split(key, 4)
        self.conv = eqx.nn.Conv2d(1, 16, 3, padding="SAME", key=keys[0])
        self.residual = eqx.nn.Conv2d(16, 16, 3, padding="SAME", key=keys[1])
        self.pool = eqx.nn.MaxPool2d(2, 2)
        self.dense = eqx.nn.Linear(256, 64, key=keys[2])
        self.norm = eqx.nn.LayerNorm(64)
        self.output = eqx.nn.Linear(64, 10, key=keys[3])

    def __call__(self, x: jax.Array) -> jax.Array:
        """One image [1, 8, 8] to logits [10]."""
        x = jax.nn.relu(self.conv(x))
        x = x + jax.nn.relu(self.residual(x))
        x = self.pool(x).reshape(-1)
        return self.output(jax.nn.relu(self.norm(self.dense(x))))


def main(steps: int = 20) -> tuple[float, dict[str, float]]:
    """Trains on random images; returns the last loss and how many units each layer has reset."""
    model = ResidualCNN(jax.random.key(0))
    images = jax.random.normal(jax.random.key(1), (32, 1, 8, 8))
    labels = jax.random.randint(jax.random.key(2), (32,), 0, 10)
    params = eqx.filter(model, eqx.is_inexact_array)

    graph = trace_units(lambda p, x: jax.vmap(eqx.combine(p, model))(x), params, images[:1])  # 2
    tx = attach_reset_method(  # 3
        tx=optax.adam(1e-3), reset_method=CPR(every=10), units=graph
    )
    print(graph)

    @eqx.filter_jit
    def step(
        model: ResidualCNN, state: optax.OptState
    ) -> tuple[ResidualCNN, optax.OptState, jax.Array]:
        def loss_of(model: ResidualCNN) -> jax.Array:
            logits = jax.vmap(model)(images)
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

        loss, grads = eqx.filter_value_and_grad(loss_of)(model)
        params = eqx.filter(model, eqx.is_inexact_array)
        updates, state = tx.update(grads, state, params)
        return eqx.apply_updates(model, updates), state, loss

    state = tx.init(params)
    for _ in range(steps):
        model, state, loss = step(model, state)
    resets = dict(zip(graph.names, state.log.total.tolist(), strict=True))
    for name, amount in resets.items():
        print(f"{name}: {amount:.3f} units' worth of resets")
    return float(loss), resets


if __name__ == "__main__":
    main()
