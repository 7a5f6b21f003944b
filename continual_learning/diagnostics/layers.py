"""The input of every diagnostic: one layer's array, or a mapping of layer names to arrays."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

# The key, beside the layer names, under which a diagnostic reports the whole network.
TOTAL = "total"


def as_rows(h: ArrayLike) -> Array:
    """Return one layer as a matrix with a row per sample and position.

    Args:
        h: One layer's features or pre-activations, `[batch, *positions, units]`.

    Returns:
        `[batch · positions, units]`, in float32 for half-precision and integer input.
    """
    check_layer(h, "The layer")
    h = jnp.asarray(h)
    return h.astype(jnp.promote_types(h.dtype, jnp.float32)).reshape(-1, h.shape[-1])


def check_layer(h: object, label: str) -> None:
    """Raise an error unless `h` is an array `[batch, *positions, units]` that is not empty."""
    if not isinstance(h, jax.Array | np.ndarray):
        raise TypeError(
            f"{label} is a {type(h).__name__}, but must be an array [batch, *positions, units]. "
            "Nested features must be flattened to one mapping of layer names to arrays."
        )
    if h.ndim < 2 or h.size == 0:
        raise ValueError(
            f"{label} has shape {h.shape}, but must be [batch, *positions, units] with at least "
            "one sample, position and unit. Give a single sample a batch axis: h[None]."
        )


def check_layers(layers: object, label: str) -> None:
    """Raise an error unless `layers` is a non-empty mapping of layer names to arrays.

    Args:
        layers: The features or pre-activations that were given.
        label: Name of the argument, for the message.
    """
    if not isinstance(layers, Mapping):
        raise TypeError(
            f"{label} is a {type(layers).__name__}, but must be a mapping of layer names to arrays "
            "[batch, *positions, units]. For a single layer use the single-layer functions or "
            "{'name': h}."
        )
    if not layers:
        raise ValueError(f"{label} is empty, but must hold at least one hidden layer.")
    for name, h in layers.items():
        if not isinstance(name, str) or name == TOTAL:
            raise ValueError(
                f"{label} has a layer named {name!r}, but layer names must be strings other than "
                f"{TOTAL!r}, which is the key of the whole network. Rename the layer."
            )
        check_layer(h, f"{label}[{name!r}]")


def check_range(name: str, value: ArrayLike, low: float, high: float) -> None:
    """Raise a ValueError unless `low <= value <= high`; traced values and arrays are not checked.

    Args:
        name: Name of the argument, for the message.
        value: Its value.
        low: The lower bound.
        high: The upper bound.
    """
    if isinstance(value, int | float | np.generic) and not low <= value <= high:
        raise ValueError(f"{name} is {value}, but must be between {low:g} and {high:g}.")
