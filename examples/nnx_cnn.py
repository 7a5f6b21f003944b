"""CPR in a Flax NNX training loop: three lines, whatever the network looks like.

Needs the `flax` extra.
"""

import jax
import optax
from flax import nnx

from continual_learning import CPR, attach_reset_method, trace_units  # 1


class ResidualCNN(nnx.Module):
    """Two convolutions with a residual sum, pooling, a dense layer and an output layer."""

    def __init__(self, rngs: nnx.Rngs):
        self.conv = nnx.Conv(1, 16, (3, 3), rngs=rngs)
        self.residual = nnx.Conv(16, 16, (3, 3), rngs=rngs)
        self.dense = nnx.Linear(256, 64, rngs=rngs)
        self.norm = nnx.LayerNorm(64, rngs=rngs)
        self.output = nnx.Linear(64, 10, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Images [batch, 8, 8, 1] to logits [batch, 10]."""
        x = nnx.relu(self.conv(x))
        x = x + nnx.relu(self.residual(x))
        x = nnx.max_pool(x, (2, 2), (2, 2))
        x = nnx.relu(self.norm(self.dense(x.reshape(x.shape[0], -1))))
        return self.output(x)


def main(steps: int = 20) -> tuple[float, dict[str, float]]:
    """Trains on random images; returns the last loss and how many units each layer has reset."""
    model = ResidualCNN(nnx.Rngs(0))
    images = jax.random.normal(jax.random.key(1), (32, 8, 8, 1))
    labels = jax.random.randint(jax.random.key(2), (32,), 0, 10)

    # A model with other variables than parameters (batch norm, dropout) is split into `graphdef,
    # params, rest = nnx.split(model, nnx.Param, ...)`, and what is traced is a function of params:
    # lambda params, x: nnx.merge(graphdef, params, rest, copy=True)(x).
    graph = trace_units(ResidualCNN.__call__, model, images[:1])  # 2
    tx = attach_reset_method(  # 3
        tx=optax.adam(1e-3), reset_method=CPR(every=10), units=graph
    )
    print(graph)

    @nnx.jit
    def step(model: ResidualCNN, optimizer: nnx.Optimizer) -> jax.Array:
        def loss_of(model: ResidualCNN) -> jax.Array:
            logits = model(images)
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

        loss, grads = nnx.value_and_grad(loss_of)(model)
        optimizer.update(model, grads)
        return loss

    optimizer = nnx.Optimizer(model, tx, wrt=nnx.Param)
    for _ in range(steps):
        loss = step(model, optimizer)
    resets = dict(zip(graph.names, optimizer.opt_state.log.total.tolist(), strict=True))
    for name, amount in resets.items():
        print(f"{name}: {amount:.3f} units' worth of resets")
    return float(loss), resets


if __name__ == "__main__":
    main()
