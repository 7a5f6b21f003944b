"""Clipping and the lesser of two numbers, with gradients that a compiler cannot break.

The gradient of `jnp.minimum`, and so of `jnp.clip`, tests which argument equals the result. A
compiler may compute the argument a second time and round it differently; then neither argument
does, and the gradient is silently zero; that of `jnp.min` is 0/0. The functions of this module
test which argument is less.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

Number = float | jax.Array


def lesser(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return the lesser of both, which alone takes the gradient; `a` where they are equal."""
    return jnp.where(b < a, b, a)


def clipped(x: jax.Array, low: Number, high: Number) -> jax.Array:
    """Return `x` clipped to [low, high]; `x` takes all of the gradient on the bounds as well.

    Args:
      x: any array.
      low: the lower bound.
      high: the upper bound.
    """
    return jnp.where(x < low, low, jnp.where(x > high, high, x))
