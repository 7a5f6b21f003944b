"""Loops of a program: few iterations run to the end, many stop as soon as nobody needs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax

FEW = 10
"""Up to so many iterations are run without asking whether any environment still needs them: the
answer would have to travel from a GPU to its host every time."""

Carry = TypeVar("Carry")


def repeat(
    count: int, body: Callable[[Carry], Carry], start: Carry, going: Callable[[Carry], Any]
) -> Carry:
    """Apply `body` up to `count` times.

    Args:
      count: the most iterations.
      body: an iteration, which leaves environments as they are that are done.
      start: a pytree of arrays [envs].
      going: the environments that are not done, bool [envs].
    """
    if count <= FEW:
        return jax.lax.fori_loop(0, count, lambda _, carry: body(carry), start)

    def wanted(carry: tuple[Any, Carry]) -> Any:
        return (carry[0] < count) & going(carry[1]).any()

    def step(carry: tuple[Any, Carry]) -> tuple[Any, Carry]:
        return carry[0] + 1, body(carry[1])

    return jax.lax.while_loop(wanted, step, (0, start))[1]
