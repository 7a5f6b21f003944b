"""A convolutional network for small images."""

from __future__ import annotations

from collections.abc import Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp

from continual_learning.networks.mlp import activation, dense, initialiser


class Conv(nn.Module):
    """A convolution of stride 1 that keeps height and width, as a matrix product of patches.

    It is `nn.Conv` with padding "SAME" up to rounding, with the same parameters. Under a `vmap`
    over networks that becomes a grouped convolution, this a batched product.

    Attributes:
      channels: how many come out.
      size: height and width of the kernel; odd.
      kernel_init: initialiser of the kernel [size, size, in, out]; the bias starts at 0.
    """

    channels: int
    size: int
    kernel_init: nn.initializers.Initializer

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """[…, height, width, in] -> […, height, width, out]."""
        *_, height, width, channels = x.shape
        shape = (self.size, self.size, channels, self.channels)
        kernel = self.param("kernel", self.kernel_init, shape)
        bias = self.param("bias", nn.initializers.zeros, (self.channels,))
        margin = [(self.size // 2, self.size // 2)] * 2
        padded = jnp.pad(x, [(0, 0)] * (x.ndim - 3) + margin + [(0, 0)])
        patches = [
            padded[..., row : row + height, column : column + width, :]
            for row in range(self.size)
            for column in range(self.size)
        ]
        product = jnp.concatenate(patches, axis=-1) @ kernel.reshape(-1, self.channels)
        return product + jnp.broadcast_to(bias, product.shape)


class CNN(nn.Module):
    """Convolutions `conv_0`, …, then dense layers as in `MLP`.

    Attributes:
      image: (height, width, channels) of what it reads, which comes as a flat vector.
      channels: of the convolutions.
      hidden: widths of the hidden dense layers.
      outputs: width of the output layer.
      size: height and width of the kernels; odd.
      activation: "relu", "swish", "tanh" or "gelu".
      kernel_init: initialiser of all kernels, by name; biases start at 0.
    """

    image: tuple[int, int, int]
    channels: Sequence[int]
    hidden: Sequence[int]
    outputs: int
    size: int = 3
    activation: str = "relu"
    kernel_init: str = "lecun_normal"

    def __post_init__(self):
        initialiser(self.kernel_init)
        activation(self.activation)
        if self.size < 1 or self.size % 2 == 0:
            raise ValueError(f"size must be odd, got {self.size}.")
        super().__post_init__()

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """[…, height · width · channels] -> […, outputs]."""
        init, act = initialiser(self.kernel_init), activation(self.activation)
        x = x.reshape(*x.shape[:-1], *self.image)
        for i, channels in enumerate(self.channels):
            x = act(Conv(channels, self.size, init, name=f"conv_{i}")(x))
        x = x.reshape(*x.shape[:-3], -1)
        return dense(x, self.hidden, self.outputs, act, init)
