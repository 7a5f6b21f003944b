"""What a training program is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax

Hyper = Mapping[str, jax.Array]
"""Hyper-parameters that are arrays, one value per lane, in place of the experiment's own."""

MakeOptimizer = Callable[[Any, Hyper], optax.GradientTransformationExtraArgs]
"""(unit graph, hyper-parameters) -> optimizer."""


@dataclasses.dataclass(frozen=True)
class Trainer:
    """A training run of one seed as two pure functions; a study maps them over seeds.

    Attributes:
      init: (key, hyper, data) -> state: everything that the next chunk reads, and nothing else.
      chunk: (state, hyper, data) -> (state, rows): the next stretch of training, always of the
        same length; rows are {column: [rows]} and include "step" and "task".
      chunks: how many make up the whole run.
      data: arrays that all seeds share, or ().
      headline: the column to show while it runs.
      ring: path in the state of a large part that is like `ReplayState`, or None. Of its rows a
        checkpoint writes only those that were added since the one before.
    """

    init: Callable[[jax.Array, Hyper, Any], Any]
    chunk: Callable[[Any, Hyper, Any], tuple[Any, dict[str, jax.Array]]]
    chunks: int
    data: Any
    headline: str
    ring: str | None = None


def strongly_typed(tree: Any) -> Any:
    """The same arrays without weak types, which would make a second program of the first chunk."""

    def strong(x: jax.Array) -> jax.Array:
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            return x
        return jax.lax.convert_element_type(x, x.dtype)

    return jax.tree.map(strong, tree)
