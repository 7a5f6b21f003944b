"""A multi-layer perceptron."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import flax.linen as nn
import jax

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "relu": nn.relu,
    "swish": nn.swish,
    "tanh": nn.tanh,
    "gelu": nn.gelu,
}
INITIALISERS: dict[str, Callable[..., jax.Array]] = {
    "he_uniform": jax.nn.initializers.he_uniform(),
    "he_normal": jax.nn.initializers.he_normal(),
    "lecun_uniform": jax.nn.initializers.lecun_uniform(),
    "lecun_normal": jax.nn.initializers.lecun_normal(),
    "glorot_uniform": jax.nn.initializers.glorot_uniform(),
}


def initialiser(name: str) -> Callable[..., jax.Array]:
    """An initialiser of kernels by name."""
    if name not in INITIALISERS:
        raise ValueError(f"Unknown initialiser {name!r}. Valid: {', '.join(INITIALISERS)}.")
    return INITIALISERS[name]


class MLP(nn.Module):
    """Dense layers `hidden_0`, `hidden_1`, … and `output`.

    Attributes:
      hidden: widths of the hidden layers.
      outputs: width of the output layer.
      activation: "relu", "swish", "tanh" or "gelu".
      kernel_init: initialiser of all kernels, by name; biases start at 0.
    """

    hidden: Sequence[int]
    outputs: int
    activation: str = "relu"
    kernel_init: str = "lecun_normal"

    def __post_init__(self):
        initialiser(self.kernel_init)
        if self.activation not in ACTIVATIONS:
            raise ValueError(
                f"Unknown activation {self.activation!r}. Valid: {', '.join(ACTIVATIONS)}."
            )
        super().__post_init__()

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """[…, features] -> […, outputs]."""
        init = initialiser(self.kernel_init)
        for i, width in enumerate(self.hidden):
            x = nn.Dense(width, kernel_init=init, name=f"hidden_{i}")(x)
            x = ACTIVATIONS[self.activation](x)
        return nn.Dense(self.outputs, kernel_init=init, name="output")(x)
