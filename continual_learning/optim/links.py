"""The parts of a unit graph: links between units and slices of parameters."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class Link:
    """The slices of one parameter that belong to the units of one layer.

    Attributes:
      param: path of the parameter.
      axes: its axes along which units differ, increasing.
      index: int array with the parameter's extent along `axes`; the unit to which each slice
        belongs, or -1 for a slice that belongs to no unit of the layer.
      position: for the reader of a flattened layer, the position (in C order over the feature's
        spatial axes) that each slice reads; None if a slice reads all positions alike.
    """

    param: str
    axes: tuple[int, ...]
    index: np.ndarray
    position: np.ndarray | None = None

    def __post_init__(self):
        if list(self.axes) != sorted(set(self.axes)):
            raise ValueError(f"Link of {self.param!r}: axes must increase, got {self.axes}.")
        if self.index.ndim != len(self.axes):
            raise ValueError(
                f"Link of {self.param!r}: index has shape {self.index.shape}, "
                f"which does not fit the {len(self.axes)} axes {self.axes}."
            )

    @functools.cached_property
    def _in_order(self) -> bool:
        return bool(np.array_equal(self.index.reshape(-1), np.arange(self.index.size)))

    def is_plain(self, size: int) -> bool:
        """Return whether the slices are all `size` units in order, so that no gather is needed."""
        return self.index.size == size and self._in_order

    def expand(self, values: jax.Array, ndim: int, fill: Any) -> jax.Array:
        """Lay per-unit values along the parameter's axes, to broadcast against it.

        Args:
          values: [size].
          ndim: number of the parameter's axes.
          fill: the value for slices that belong to no unit.
        """
        if self.is_plain(values.shape[0]):
            spread = values.reshape(self.index.shape)
        else:
            fill = jnp.full((1,), fill, values.dtype)
            spread = jnp.concatenate([values, fill])[self.index]  # index -1 reads the fill
        shape = [1] * ndim
        for axis, extent in zip(self.axes, self.index.shape, strict=True):
            shape[axis] = extent
        return spread.reshape(shape)

    def slice_sums(self, array: jax.Array, dtype: Any) -> jax.Array:
        """Return the sums of the parameter-shaped `array` within each slice, like `index`."""
        others = tuple(a for a in range(array.ndim) if a not in self.axes)
        return jnp.sum(array, axis=others, dtype=dtype)

    def collect(self, slices: jax.Array, size: int) -> jax.Array:
        """Sum over each unit's slices: `slices` like `index` -> [size]."""
        if self.is_plain(size):
            return slices.reshape(size)
        sums = jnp.zeros((size + 1,), slices.dtype).at[self.index].add(slices)
        return sums[:size]

    def entries(self, shape: Sequence[int], size: int) -> np.ndarray:
        """Return the number of the parameter's entries that belong to each unit, [size]."""
        slices = int(np.prod([n for a, n in enumerate(shape) if a not in self.axes]))
        return np.bincount(self.index[self.index >= 0].reshape(-1), minlength=size) * slices


@dataclasses.dataclass(frozen=True, eq=False)
class Kernel:
    """The use of a kernel's axes, so that an initializer can be called in [in, out] or HWIO.

    Attributes:
      param: path of the parameter.
      inputs, outputs: axes of its input and output features.
      spatial: axes of the receptive field (conv), in order.
      copies: axes that enumerate independent copies (an ensemble).
      bias: path of the bias added to its outputs, shaped [*copies, *outputs], or None.
    """

    param: str
    inputs: tuple[int, ...] = (0,)
    outputs: tuple[int, ...] = (1,)
    spatial: tuple[int, ...] = ()
    copies: tuple[int, ...] = ()
    bias: str | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Layer:
    """The hidden units that share a name: the path of the (first) kernel that produces them."""

    name: str
    size: int
    incoming: tuple[Link, ...]
    outgoing: tuple[Link, ...]
    bias: tuple[Link, ...] = ()  # biases, and biases of norms: 0 in a fresh unit
    scale: tuple[Link, ...] = ()  # scales of norms: 1 in a fresh unit

    def links(self) -> tuple[Link, ...]:
        """Return all links of the layer."""
        return self.incoming + self.bias + self.scale + self.outgoing
