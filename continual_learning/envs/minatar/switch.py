"""A choice among functions that computes only one of them, also under `vmap`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import jax
import jax.numpy as jnp

Args = TypeVar("Args")
Out = TypeVar("Out")


def switch(index: jax.Array, branches: Sequence[Callable[[Args], Out]], args: Args) -> Out:
    """Return `branches[index](args)`.

    `lax.switch` under `vmap` with a batched index computes every branch for every lane. This
    function computes one branch if all lanes agree on it, and all branches only if they do not.

    Args:
      index: int32 [], within range.
      branches: functions that use no traced values except their argument.
      args: a pytree of arrays.
    """

    @jax.custom_batching.custom_vmap
    def call(index, args):
        return jax.lax.switch(index, branches, args)

    @call.def_vmap
    def _(axis_size, in_batched, index, args):
        index_batched, args_batched = in_batched
        axes = jax.tree.map(lambda batched: 0 if batched else None, args_batched)

        def lanes(branch):
            return lambda args: jax.vmap(branch, in_axes=(axes,), axis_size=axis_size)(args)

        # `switch` calls itself, so that a further vmap around this one meets a choice as well.
        if not index_batched:
            out = switch(index, [lanes(branch) for branch in branches], args)
        else:

            def each(indices_and_args):
                indices, args = indices_and_args
                chosen = jax.vmap(lambda i, a: jax.lax.switch(i, branches, a), in_axes=(0, axes))
                return chosen(indices, args)

            def all_of(branch):
                return lambda indices_and_args: lanes(branch)(indices_and_args[1])

            agreed = jnp.all(index == index[0])
            number = jnp.where(agreed, index[0], len(branches))
            out = switch(number, [*map(all_of, branches), each], (index, args))
        return out, jax.tree.map(lambda _: True, out)

    return call(index, args)
