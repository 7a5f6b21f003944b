"""A multi-layer perceptron."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp

from continual_learning.optim.fresh import INITIALIZERS


def crelu(x: jax.Array) -> jax.Array:
    """Return the concatenated rectifier [relu(x), relu(−x)]: […, units] -> […, 2·units].

    Both halves are one array when they are rectified, so that the features of a unit are both.

    References:
      Shang et al., Understanding and Improving Convolutional Neural Networks via Concatenated
      Rectified Linear Units, 2016 (arXiv 1603.05201).
      Abbas et al., Loss of Plasticity in Continual Deep Reinforcement Learning, 2023 (arXiv
      2303.07507).
    """
    return nn.relu(jnp.concatenate([x, -x], axis=-1))


ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "relu": nn.relu,
    "swish": nn.swish,
    "tanh": nn.tanh,
    "gelu": nn.gelu,
    "crelu": crelu,
}


def initializer(name: str) -> Callable[..., jax.Array]:
    """Return the initializer of kernels of this name."""
    if name not in INITIALIZERS:
        raise ValueError(f"Unknown initializer {name!r}. Valid: {', '.join(INITIALIZERS)}.")
    return INITIALIZERS[name]


def activation(name: str) -> Callable[[jax.Array], jax.Array]:
    """Return the activation of this name."""
    if name not in ACTIVATIONS:
        raise ValueError(f"Unknown activation {name!r}. Valid: {', '.join(ACTIVATIONS)}.")
    return ACTIVATIONS[name]


def fourier_features(x: jax.Array, number: int, scale: float) -> jax.Array:
    """Return x beside sines and cosines of a learned kernel's product with it.

    A unit of the layer `fourier`, which belongs to the module that calls this, owns its sine and
    its cosine. A shift by a quarter turn makes one of the other, so that the features of a unit are
    both.

    Args:
      x: […, inputs].
      number: the number of sines and cosines per input.
      scale: the standard deviation of the initial kernel.

    Returns:
      […, inputs + 2·⌈number·inputs/2⌉].

    References:
      Li & Pathak, Functional Regularization for Reinforcement Learning via Learned Fourier
      Features, 2021 (arXiv 2112.03257).
    """
    width = math.ceil(number * x.shape[-1] / 2)
    init = nn.initializers.normal(scale)
    angle = 2 * math.pi * nn.Dense(width, use_bias=False, kernel_init=init, name="fourier")(x)
    waves = jnp.sin(jnp.concatenate([angle, angle + math.pi / 2], axis=-1))
    return jnp.concatenate([x, waves], axis=-1)


def dense(
    x: jax.Array,
    hidden: Sequence[int],
    outputs: int,
    activation: Callable[[jax.Array], jax.Array],
    kernel_init: Callable[..., jax.Array],
    layer_norm: bool = False,
) -> jax.Array:
    """Apply layers `hidden_0`, …, norms `norm_0`, … and `output` of the module that calls this.

    Args:
      x: […, features].
      hidden: widths of the hidden layers.
      outputs: width of the output layer.
      activation: the activation of the hidden layers.
      kernel_init: initializer of all kernels.
      layer_norm: whether a LayerNorm stands before every activation.

    Returns:
      […, outputs].
    """
    for i, width in enumerate(hidden):
        x = nn.Dense(width, kernel_init=kernel_init, name=f"hidden_{i}")(x)
        x = activation(nn.LayerNorm(name=f"norm_{i}")(x) if layer_norm else x)
    return nn.Dense(outputs, kernel_init=kernel_init, name="output")(x)


class MLP(nn.Module):
    """Dense layers `hidden_0`, `hidden_1`, … and `output`, after a layer `fourier` if it is wanted.

    Attributes:
      hidden: widths of the hidden layers.
      outputs: width of the output layer.
      activation: "relu", "swish", "tanh", "gelu" or "crelu".
      kernel_init: name of the initializer of all kernels but that of `fourier`; biases start at 0.
      layer_norm: whether a LayerNorm `norm_0`, … stands before every activation.
      fourier: number of learned Fourier features per input, beside the inputs; 0 for none.
      fourier_scale: standard deviation of the initial kernel of `fourier`.
    """

    hidden: Sequence[int]
    outputs: int
    activation: str = "relu"
    kernel_init: str = "lecun_normal"
    layer_norm: bool = False
    fourier: int = 0
    fourier_scale: float = 0.01

    def __post_init__(self):
        initializer(self.kernel_init)
        activation(self.activation)
        if self.fourier < 0:
            raise ValueError(f"fourier must be at least 0, got {self.fourier}.")
        super().__post_init__()

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Apply the network: […, features] -> […, outputs]."""
        init, act = initializer(self.kernel_init), activation(self.activation)
        if self.fourier:
            x = fourier_features(x, self.fourier, self.fourier_scale)
        return dense(x, self.hidden, self.outputs, act, init, self.layer_norm)
