"""Keys that differ between networks and seeds, though the user gives one key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp


def seeded(key: Any, kernels: Iterable[jax.Array]) -> jax.Array:
    """Return the key data of `key` with the bits of the initial kernels folded in.

    Lanes of a `vmap` over seeds, and actor and critic with the same key, therefore draw
    differently.
    """
    typed = wrap(key)
    for kernel in kernels:
        typed = jax.random.fold_in(typed, _digest(kernel))
    return jax.random.key_data(typed)


def wrap(key: Any, data: jax.Array | None = None) -> jax.Array:
    """Return `key` (an integer, a typed key or raw key data) as a typed key.

    With `data`, return these key data as a typed key of the same kind.
    """
    is_typed = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    if data is not None:
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(key) if is_typed else None)
    if is_typed:
        return key
    if jnp.ndim(key) == 1:
        return jax.random.wrap_key_data(jnp.asarray(key, jnp.uint32))
    return jax.random.key(key)


def _digest(array: jax.Array) -> jax.Array:
    """Return a uint32 that depends on every bit of `array` and its place."""
    bits = jax.lax.bitcast_convert_type(array, _UINT[array.dtype.itemsize])
    if bits.dtype.itemsize > 4:
        bits = bits ^ (bits >> 32)
    # Places are odd numbers in C order, without a reshape, since the array may be sharded.
    place = jnp.ones(bits.shape, jnp.uint32)
    stride = 2
    for axis in reversed(range(bits.ndim)):
        place += stride * jax.lax.broadcasted_iota(jnp.uint32, bits.shape, axis)
        stride *= bits.shape[axis]
    mixed = (bits.astype(jnp.uint32) ^ (place * jnp.uint32(2654435761))) * place
    return jnp.sum(mixed, dtype=jnp.uint32)


_UINT = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint64}
