"""Mapping of functions of one seed over all seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def over_lanes(function: Callable[..., Any], lanes: int, in_axes: Any) -> Callable[..., Any]:
    """Return `jax.vmap(function, in_axes)`, but do not map a single lane on a CPU.

    An axis of size 1 hides from XLA that the gradients of weights need no transposition, so that
    on a CPU the optimizer would read them across their rows. The results differ at most by
    rounding.

    Args:
      function: a function of one lane.
      lanes: the number of lanes.
      in_axes: one axis per argument, as in `jax.vmap`: 0 for [lanes, …], None for an argument that
        is the same in all lanes.
    """
    if lanes != 1 or jax.default_backend() != "cpu":
        return jax.vmap(function, in_axes)

    def inner(axis: int | None, part: Any) -> Any:
        return part if axis is None else jax.tree.map(lambda x: jnp.squeeze(x, 0), part)

    def call(*args: Any) -> Any:
        alone = jax.tree.map(inner, in_axes, args, is_leaf=lambda axis: axis is None)
        return jax.tree.map(lambda x: jnp.expand_dims(x, 0), function(*alone))

    return call
