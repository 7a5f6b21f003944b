"""CPR in a Haiku training loop: three lines, whatever the network looks like.

Needs the `haiku` extra.
"""

import haiku as hk
import jax
import optax

from continual_learning import CPR, attach_reset_method, trace_units  # 1


def residual_cnn(x: jax.Array) -> jax.Array:
    """Images [batch, height, width, channels] to logits [batch, 10].

    Two convolutions with a residual sum, pooling, a dense layer and an output layer.
    """
    x = jax.nn.relu(hk.Conv2D(16, 3)(x))
    x = x + jax.nn.relu(hk.Conv2D(16, 3)(x))
    x = hk.max_pool(x, (2, 2, 1), (2, 2, 1), padding="VALID")
    x = hk.Linear(64)(hk.Flatten()(x))
    x = jax.nn.relu(hk.LayerNorm(axis=-1, create_scale=True, create_offset=True)(x))
    return hk.Linear(10)(x)


def main(steps: int = 20) -> tuple[float, dict[str, float]]:
    """Trains on random images; returns the last loss and how many units each layer has reset."""
    model = hk.without_apply_rng(hk.transform(residual_cnn))
    images = jax.random.normal(jax.random.key(1), (32, 8, 8, 1))
    labels = jax.random.randint(jax.random.key(2), (32,), 0, 10)
    params = model.init(jax.random.key(0), images)

    graph = trace_units(model.apply, params, images[:1])  # 2
    tx = attach_reset_method(  # 3
        tx=optax.adam(1e-3), reset_method=CPR(every=10), units=graph
    )
    print(graph)

    @jax.jit
    def step(
        params: hk.Params, state: optax.OptState
    ) -> tuple[hk.Params, optax.OptState, jax.Array]:
        def loss_of(params: hk.Params) -> jax.Array:
            logits = model.apply(params, images)
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

        loss, grads = jax.value_and_grad(loss_of)(params)
        updates, state = tx.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss

    state = tx.init(params)
    for _ in range(steps):
        params, state, loss = step(params, state)
    resets = dict(zip(graph.names, state.log.total.tolist(), strict=True))
    for name, amount in resets.items():
        print(f"{name}: {amount:.3f} units' worth of resets")
    return float(loss), resets


if __name__ == "__main__":
    main()
