"""Methods that change every step: penalties before the inner optimizer, projections after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from continual_learning.optim import trees
from continual_learning.optim.links import Kernel
from continual_learning.optim.units import UnitGraph

Arrays = Mapping[str, jax.Array]  # {path: array}


class Wrapped(NamedTuple):
    """The state of an inner optimizer with a method around it.

    Attributes:
      inner: the state of the inner optimizer.
      method: the method's own state, whose structure does not depend on the graph.
    """

    inner: Any
    method: Any


def penalized(
    tx: optax.GradientTransformation,
    start: Callable[[Any], Any],
    gradient: Callable[[Any, Any], tuple[Any, Arrays]],
) -> optax.GradientTransformationExtraArgs:
    """Return the inner optimizer with the gradient of a penalty added to the gradients it gets.

    Args:
      tx: the inner optimizer.
      start: `(params) -> state`.
      gradient: `(state, params) -> (state, {path: gradient})`.
    """
    tx = optax.with_extra_args_support(tx)

    def init(params: Any) -> Wrapped:
        return Wrapped(tx.init(params), start(params))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Wrapped]:
        method, added = gradient(state.method, params)
        grads = trees.arrays(updates)
        new = {p: (grads[p] + g).astype(grads[p].dtype) for p, g in added.items() if p in grads}
        updates, inner = tx.update(trees.replace(updates, new), state.inner, params, **extra)
        return updates, Wrapped(inner, method)

    return optax.GradientTransformationExtraArgs(init, update)


def projected(
    tx: optax.GradientTransformation,
    start: Callable[[Any], Any],
    project: Callable[[Any, Any, Arrays], Arrays],
) -> optax.GradientTransformationExtraArgs:
    """Return the inner optimizer with a projection of the parameters after its step.

    Args:
      tx: the inner optimizer.
      start: `(params) -> state`, which never changes.
      project: `(state, params, after) -> {path: array}` of the projected ones of `after`, the
        parameters {path: array} after the inner step.
    """
    tx = optax.with_extra_args_support(tx)

    def init(params: Any) -> Wrapped:
        return Wrapped(tx.init(params), start(params))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Wrapped]:
        updates, inner = tx.update(updates, state.inner, params, **extra)
        before, steps = trees.arrays(params), trees.arrays(updates)
        after: Any = {p: optax.apply_updates(before[p], u) for p, u in steps.items()}

        def as_update(path: str, new: jax.Array) -> jax.Array:
            # Updates must be at least as precise as the parameters, so that p + (p' - p) is p'.
            dtype = jnp.promote_types(steps[path].dtype, before[path].dtype)
            change = new.astype(dtype) - before[path].astype(dtype)
            return jnp.where(new == after[path], steps[path].astype(dtype), change)

        found = project(state.method, params, after).items()
        new = {p: as_update(p, w.astype(before[p].dtype)) for p, w in found}
        return trees.replace(updates, new), Wrapped(inner, state.method)

    return optax.GradientTransformationExtraArgs(init, update)


# Parts of kernels ------------------------------------------------------------------------------


def hidden(graph: UnitGraph) -> list[Kernel]:
    """Return the kernels of hidden layers: all but those of output layers.

    A graph that names no output layers (one that was not traced) has as hidden layers those whose
    outputs are units.
    """
    known = {link.param for layer in graph.layers for link in layer.incoming}
    if graph.output:
        known |= set(graph.shapes) - set(graph.output)
    return [kernel for kernel in graph.kernels if kernel.param in known]


def fan_in(kernel: Kernel, shape: tuple[int, ...]) -> int:
    """Return the number of entries that produce one output."""
    return int(np.prod([shape[a] for a in (*kernel.inputs, *kernel.spatial)]))


def wide(w: jax.Array) -> jax.Array:
    """Return an array in float32, or in float64 if it is."""
    return w.astype(jnp.promote_types(w.dtype, jnp.float32))


def matrices(kernel: Kernel, w: jax.Array) -> jax.Array:
    """Return a kernel as [copies, outputs, inputs · positions of the receptive field]."""
    moved = wide(w).transpose(_order(kernel))
    split = len(kernel.copies), len(kernel.copies) + len(kernel.outputs)
    copies, outputs = (int(np.prod(moved.shape[i:j])) for i, j in ((0, split[0]), split))
    return moved.reshape(copies, outputs, fan_in(kernel, w.shape))


def like_kernel(kernel: Kernel, matrix: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Undo `matrices`, for a kernel of this shape."""
    order = _order(kernel)
    return matrix.reshape([shape[a] for a in order]).transpose(np.argsort(order))


def per_copy(array: jax.Array, copies: tuple[int, ...], shape: tuple[int, ...]) -> jax.Array:
    """Shape one number for each copy, [copies], to broadcast against a parameter."""
    return array.reshape([n if a in copies else 1 for a, n in enumerate(shape)])


def flat(parts: Iterable[jax.Array]) -> jax.Array:
    """Return all numbers in one vector, whose structure does not depend on the network."""
    return jnp.concatenate([jnp.zeros((0,), jnp.float32), *(part.reshape(-1) for part in parts)])


def cut(vector: jax.Array, sizes: Iterable[int]) -> list[jax.Array]:
    """Return the parts of a vector, in order."""
    return jnp.split(vector, np.cumsum([*sizes]))[:-1]


def _order(kernel: Kernel) -> tuple[int, ...]:
    return (*kernel.copies, *kernel.outputs, *kernel.inputs, *kernel.spatial)
