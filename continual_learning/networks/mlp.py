"""A multi-layer perceptron."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import flax.linen as nn
import jax

from continual_learning.optim.fresh import INITIALIZERS

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "relu": nn.relu,
    "swish": nn.swish,
    "tanh": nn.tanh,
    "gelu": nn.gelu,
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
    """Dense layers `hidden_0`, `hidden_1`, … and `output`.

    Attributes:
      hidden: widths of the hidden layers.
      outputs: width of the output layer.
      activation: "relu", "swish", "tanh" or "gelu".
      kernel_init: name of the initializer of all kernels; biases start at 0.
      layer_norm: whether a LayerNorm `norm_0`, … stands before every activation.
    """

    hidden: Sequence[int]
    outputs: int
    activation: str = "relu"
    kernel_init: str = "lecun_normal"
    layer_norm: bool = False

    def __post_init__(self):
        initializer(self.kernel_init)
        activation(self.activation)
        super().__post_init__()

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Apply the network: […, features] -> […, outputs]."""
        init, act = initializer(self.kernel_init), activation(self.activation)
        return dense(x, self.hidden, self.outputs, act, init, self.layer_norm)
