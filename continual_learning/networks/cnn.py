"""A convolutional network for small images."""

from __future__ import annotations

from collections.abc import Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp

from continual_learning.networks.conv import Conv
from continual_learning.networks.mlp import activation, dense, initializer


class CNN(nn.Module):
    """Convolutions `conv_0`, …, then dense layers as in `MLP`.

    The first dense layer reads [width, channels, height], flattened: the order in which the product
    of `banded` lies in memory.

    Attributes:
      image: (height, width, channels) of the images, which come as flat vectors.
      channels: numbers of output channels of the convolutions.
      hidden: widths of the hidden dense layers.
      outputs: width of the output layer.
      size: height and width of the kernels; odd.
      activation: "relu", "swish", "tanh", "gelu" or "crelu".
      kernel_init: name of the initializer of all kernels; biases start at 0.
      layer_norm: whether a LayerNorm stands before the activation of every hidden dense layer.
      plain: whether convolutions are ordinary ones (see `Conv`).
    """

    image: tuple[int, int, int]
    channels: Sequence[int]
    hidden: Sequence[int]
    outputs: int
    size: int = 3
    activation: str = "relu"
    kernel_init: str = "lecun_normal"
    layer_norm: bool = False
    plain: bool = False

    def __post_init__(self):
        initializer(self.kernel_init)
        activation(self.activation)
        if self.size < 1 or self.size % 2 == 0:
            raise ValueError(f"size must be odd, got {self.size}.")
        super().__post_init__()

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Apply the network: […, height · width · channels] -> […, outputs]."""
        init, act = initializer(self.kernel_init), activation(self.activation)
        x = x.reshape(*x.shape[:-1], *self.image)
        for i, channels in enumerate(self.channels):
            x = act(Conv(channels, self.size, init, self.plain, name=f"conv_{i}")(x))
        x = jnp.moveaxis(x, -3, -1).reshape(*x.shape[:-3], -1)
        return dense(x, self.hidden, self.outputs, act, init, self.layer_norm)
