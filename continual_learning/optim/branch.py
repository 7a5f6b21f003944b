"""A conditional that stays a real branch under `vmap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp

Carry = TypeVar("Carry")
Args = TypeVar("Args")


def when(due: jax.Array, fn: Callable[[Carry, Args], Carry], carry: Carry, args: Args) -> Carry:
    """Return `fn(carry, args)` if `due`, else `carry`.

    `lax.cond` under `vmap` with a batched predicate becomes a select, which computes both branches
    in every step. This branch is taken once for all lanes if any lane is due, and the other lanes
    keep their carry; if no lane is due, `fn` is not computed.

    Args:
      due: bool [].
      fn: a function that uses no traced values but its arguments.
      carry: the arrays that `fn` may change.
      args: the other arrays that `fn` reads.
    """

    @jax.custom_batching.custom_vmap
    def call(due, carry, args):
        return jax.lax.cond(due, fn, lambda carry, _: carry, carry, args)

    @call.def_vmap
    def _(axis_size, in_batched, due, carry, args):
        due_batched, carry_batched, args_batched = in_batched
        carry = jax.tree.map(
            lambda x, batched: x if batched else jnp.broadcast_to(x, (axis_size, *x.shape)),
            carry,
            carry_batched,
        )
        args_axes = jax.tree.map(lambda batched: 0 if batched else None, args_batched)
        lanes = jax.vmap(fn, in_axes=(0, args_axes), axis_size=axis_size)

        def due_lanes(carry, due_and_args):
            due, args = due_and_args
            chosen = jax.vmap(lambda d, new, old: jax.tree.map(_pick(d), new, old))
            return chosen(due, lanes(carry, args), carry)

        # This calls `when` again, so that a further vmap around this one finds a branch as well.
        if due_batched:
            out = when(jnp.any(due), due_lanes, carry, (due, args))
        else:
            out = when(due, lanes, carry, args)
        return out, jax.tree.map(lambda _: True, out)

    return call(due, carry, args)


def _pick(due: jax.Array):
    return lambda new, old: jnp.where(due, new, old)
