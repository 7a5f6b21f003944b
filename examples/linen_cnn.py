"""CPR in a Flax Linen training loop: three lines, whatever the network looks like.

Needs the `flax` extra.
"""

import flax.linen as nn
import jax
import optax
from flax.training.train_state import TrainState

from continual_learning import CPR, attach_reset_method, trace_units  # 1


class ResidualCNN(nn.Module):
    """Two convolutions with a residual sum, pooling, a dense layer and an output layer."""

    @nn.compact
    def __call__(self, x):
        """Images [batch, height, width, channels] to logits [batch, 10]."""
        x = nn.relu(nn.Conv(16, (3, 3))(x))
        x = x + nn.relu(nn.Conv(16, (3, 3))(x))
        x = nn.max_pool(x, (2, 2), (2, 2))
        x = nn.relu(nn.LayerNorm()(nn.Dense(64)(x.reshape(x.shape[0], -1))))
        return nn.Dense(10)(x)


def main(steps: int = 20) -> tuple[float, dict[str, float]]:
    """Trains on random images; returns the last loss and how many units each layer has reset."""
    model = ResidualCNN()
    images = jax.random.normal(jax.random.key(1), (32, 8, 8, 1))
    labels = jax.random.randint(jax.random.key(2), (32,), 0, 10)
    params = model.init(jax.random.key(0), images)

    graph = trace_units(model.apply, params, images[:1])  # 2
    tx = attach_reset_method(  # 3
        tx=optax.adam(1e-3), reset_method=CPR(every=10), units=graph
    )
    print(graph)

    @jax.jit
    def step(state: TrainState) -> tuple[TrainState, jax.Array]:
        def loss_of(params):
            logits = state.apply_fn(params, images)
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

        loss, grads = jax.value_and_grad(loss_of)(state.params)
        return state.apply_gradients(grads=grads), loss

    state = TrainState.create(apply_fn=model.apply, params=params, tx=tx)
    for _ in range(steps):
        state, loss = step(state)
    resets = dict(zip(graph.names, state.opt_state.log.total.tolist(), strict=True))
    for name, amount in resets.items():
        print(f"{name}: {amount:.3f} units' worth of resets")
    return float(loss), resets


if __name__ == "__main__":
    main()
