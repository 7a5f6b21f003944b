"""Loops: short ones run to the end, long ones stop when no environment needs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

FEW = 10
"""Up to this many iterations are run without asking whether any environment still needs them,
because the answer would have to travel from a GPU to its host every time."""

Carry = TypeVar("Carry")


def repeat(
    count: int, body: Callable[[Carry], Carry], start: Carry, going: Callable[[Carry], Any]
) -> Carry:
    """Apply `body` up to `count` times.

    Args:
      count: the largest number of iterations.
      body: makes an iteration, and does not change environments that are done.
      start: a pytree of arrays [envs].
      going: returns which environments are not done, bool [envs].
    """
    if count <= FEW:
        return jax.lax.fori_loop(0, count, lambda _, carry: body(carry), start)

    def wanted(carry: tuple[Any, Carry]) -> Any:
        # Triton has no `any`.
        return (carry[0] < count) & (jnp.max(going(carry[1]).astype(jnp.int32)) > 0)

    def step(carry: tuple[Any, Carry]) -> tuple[Any, Carry]:
        return carry[0] + 1, body(carry[1])

    return jax.lax.while_loop(wanted, step, (0, start))[1]
