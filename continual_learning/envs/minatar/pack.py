"""Conversion of the states of games to bytes, so that all games have states of the same form."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp


def size(like: Any) -> int:
    """Return the number of bytes of a pytree."""
    return sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(like))


def pack(tree: Any, length: int) -> jax.Array:
    """Pack a pytree into uint8 [length]: its leaves one after the other, then zeros."""
    parts = [_bytes(x) for x in jax.tree.leaves(tree)]
    parts.append(jnp.zeros(length - size(tree), jnp.uint8))
    return jnp.concatenate(parts)


def unpack(packed: jax.Array, like: Any) -> Any:
    """Unpack a pytree whose structure, shapes and types are those of `like`."""
    leaves, tree = jax.tree.flatten(like)
    out, position = [], 0
    for leaf in leaves:
        end = position + size(leaf)
        out.append(_array(packed[position:end], leaf))
        position = end
    return jax.tree.unflatten(tree, out)


def _bytes(x: jax.Array) -> jax.Array:
    if x.dtype == bool:
        return x.astype(jnp.uint8).reshape(-1)
    return jax.lax.bitcast_convert_type(x, jnp.uint8).reshape(-1)


def _array(raw: jax.Array, like: jax.Array | jax.ShapeDtypeStruct) -> jax.Array:
    if like.dtype == bool:
        return raw.astype(bool).reshape(like.shape)
    width = like.dtype.itemsize
    shape = like.shape if width == 1 else (*like.shape, width)
    return jax.lax.bitcast_convert_type(raw.reshape(shape), like.dtype)
