"""Clipping and the lesser of two, with gradients that survive a compiler.

The gradient of `jnp.minimum`, and so of `jnp.clip`, asks which argument equals the result. A
compiler may compute the argument a second time and round it differently; then none does, and the
gradient is silently zero; that of `jnp.min` is 0/0. These here ask which argument is less.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

Number = float | jax.Array


def lesser(a: jax.Array, b: jax.Array) -> jax.Array:
    """The lesser of both, which alone takes the gradient; where they are equal it is `a`."""
    return jnp.where(b < a, b, a)


def clipped(x: jax.Array, low: Number, high: Number) -> jax.Array:
    """Like `jnp.clip`; on the bounds x still takes all of the gradient."""
    return jnp.where(x < low, low, jnp.where(x > high, high, x))
