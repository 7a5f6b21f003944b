"""Batched functions, for callers that write one environment and map it with `jax.vmap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def of_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of one environment that computes all environments at once when mapped.

    However many `jax.vmap` surround the call (environments, seeds), `function` is called once, and
    the axes of all of them are merged into the last axis of its arrays.

    Args:
      function: maps pytrees of arrays [..., envs] to a pytree of arrays [..., envs], and treats
        every environment by itself.
    """

    @jax.custom_batching.custom_vmap
    def many(*arguments: Any) -> Any:
        return function(*arguments)

    @many.def_vmap
    def mapped(size: int, batched: Any, *arguments: Any) -> tuple[Any, Any]:
        def merge(x: jax.Array, is_batched: bool) -> jax.Array:
            every = x if is_batched else jnp.broadcast_to(x, (size, *x.shape))
            last = jnp.moveaxis(every, 0, -2)
            return last.reshape(*last.shape[:-2], -1)

        def split(x: jax.Array) -> jax.Array:
            return jnp.moveaxis(x.reshape(*x.shape[:-1], size, -1), -2, 0)

        result = jax.tree.map(split, many(*jax.tree.map(merge, arguments, tuple(batched))))
        return result, jax.tree.map(lambda _: True, result)

    def one(*arguments: Any) -> Any:
        result = many(*jax.tree.map(lambda x: jnp.asarray(x)[..., None], arguments))
        return jax.tree.map(lambda x: x[..., 0], result)

    return one
