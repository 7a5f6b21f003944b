"""Functions of one seed, for all seeds at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def over_lanes(function: Callable[..., Any], lanes: int, in_axes: Any) -> Callable[..., Any]:
    """`jax.vmap(function, in_axes)`, but on a CPU a lane that is alone is not mapped.

    An axis of size 1 hides from XLA that gradients of weights need no transposition: there the
    optimizer would then read them across their rows. Results differ by rounding at most.

    Args:
      function: of one lane.
      lanes: how many there are.
      in_axes: one per argument, as for `jax.vmap`: 0 is [lanes, …], None the same for all.
    """
    if lanes != 1 or jax.default_backend() != "cpu":
        return jax.vmap(function, in_axes)

    def inner(axis: int | None, part: Any) -> Any:
        return part if axis is None else jax.tree.map(lambda x: jnp.squeeze(x, 0), part)

    def call(*args: Any) -> Any:
        alone = jax.tree.map(inner, in_axes, args, is_leaf=lambda axis: axis is None)
        return jax.tree.map(lambda x: jnp.expand_dims(x, 0), function(*alone))

    return call
