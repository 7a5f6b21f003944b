"""How long `trace_units` takes on a ResNet-50 (224×224 images, 25.6 million parameters).

    python benchmarks/tracing.py

Needs the `flax` extra.
"""

from __future__ import annotations

import time

import flax.linen as nn
import jax
import jax.numpy as jnp

from continual_learning.optim import trace_units


class Bottleneck(nn.Module):
    """1×1, 3×3 and 1×1 convolutions around a residual sum."""

    features: int
    stride: int = 1

    @nn.compact
    def __call__(self, x):
        """[batch, height, width, channels] to the same with 4 · features channels."""

        def conv(x, features, size, stride=1):
            x = nn.Conv(features, (size, size), stride, use_bias=False)(x)
            return nn.BatchNorm(use_running_average=True)(x)

        y = nn.relu(conv(x, self.features, 1))
        y = nn.relu(conv(y, self.features, 3, self.stride))
        y = conv(y, 4 * self.features, 1)
        if x.shape != y.shape:
            x = conv(x, 4 * self.features, 1, self.stride)
        return nn.relu(x + y)


class ResNet50(nn.Module):
    """He et al., 2016."""

    @nn.compact
    def __call__(self, x):
        """Images [batch, 224, 224, 3] to logits [batch, 1000]."""
        x = nn.Conv(64, (7, 7), 2, use_bias=False)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=True)(x))
        x = nn.max_pool(x, (3, 3), (2, 2), "SAME")
        for stage, blocks in enumerate([3, 4, 6, 3]):
            for block in range(blocks):
                x = Bottleneck(64 * 2**stage, 2 if stage > 0 and block == 0 else 1)(x)
        return nn.Dense(1000)(x.mean((1, 2)))


def main() -> None:
    """Print the time, and what was found."""
    model = ResNet50()
    images = jax.ShapeDtypeStruct((1, 224, 224, 3), jnp.float32)
    shapes = jax.eval_shape(model.init, jax.random.key(0), images)

    def apply(params, statistics, x):
        return model.apply({"params": params, "batch_stats": statistics}, x)

    start = time.perf_counter()
    graph = trace_units(apply, shapes["params"], shapes["batch_stats"], images)
    seconds = time.perf_counter() - start
    print(
        f"{seconds:.1f} s: {int(graph.sizes.sum())} units in {len(graph.layers)} layers, "
        f"{len(graph.untraced)} untraced"
    )


if __name__ == "__main__":
    main()
