"""Rewriting parameters, by pure functions of parameters, graph, resets r and fresh kernels ξ.

All methods use the same operation: a reset of a unit by r ∈ [0, 1] moves its incoming entries to
(1−r)W + rξ and its outgoing ones to (1−r)W; a binary reset has r = 1. Methods differ in the order
of the two for an entry that is an outgoing one of a unit and an incoming one of the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp

from continual_learning.optim.links import Kernel, Layer, Link
from continual_learning.optim.units import UnitGraph

Params = Mapping[str, jax.Array]  # {path: array}
Outgoing = Literal["before", "after", "kept"]


def reset_units(
    graph: UnitGraph,
    params: Params,
    reset: jax.Array,
    fresh: Params,
    *,
    outgoing: Outgoing = "before",
    bias: bool = True,
) -> dict[str, jax.Array]:
    """Move every unit toward a fresh one.

    Args:
      graph: the units.
      params: {path: array}.
      reset: [layers, width] in [0, 1].
      fresh: ξ, {path: array} for every kernel with incoming entries.
      outgoing: "before": outgoing entries shrink, then incoming ones are mixed, and an entry that
        is both ends fresh (CPR, CBP); "after": the other way round, and it ends zero (ReDo);
        "kept": outgoing entries stay as they are.
      bias: whether biases move to 0 and norm scales to 1 with their unit.

    Returns:
      {path: array} of the parameters that may have changed.
    """
    rows = graph.unpack(reset)
    shrunk, mixed = _links(graph, outgoing), _links(graph, "incoming")
    new: dict[str, jax.Array] = {}
    for path in dict.fromkeys([*mixed, *shrunk]):
        w = params[path]

        def shrink(w, path=path):
            for layer, link in shrunk.get(path, ()):
                w = _towards(w, link.expand(rows[layer.name], w.ndim, 0), 0)
            return w

        def mix(w, path=path):
            for layer, link in mixed.get(path, ()):
                w = _towards(w, link.expand(rows[layer.name], w.ndim, 0), fresh[path])
            return w

        w = mix(shrink(w)) if outgoing == "before" else shrink(mix(w))
        new[path] = w.astype(params[path].dtype)
    if bias:
        for layer in graph.layers:
            for links, value in ((layer.bias, 0), (layer.scale, 1)):
                for link in links:
                    w = new.get(link.param, params[link.param])
                    w = _towards(w, link.expand(rows[layer.name], w.ndim, 0), value)
                    new[link.param] = w.astype(params[link.param].dtype)
    return new


def kept(
    graph: UnitGraph, reset: jax.Array, *, outgoing: Outgoing = "before", bias: bool = True
) -> dict[str, jax.Array]:
    """Return the share Π(1−r) of each entry that a reset keeps.

    Args:
      graph: the units.
      reset: [layers, width] in [0, 1].
      outgoing: as in `reset_units`.
      bias: as in `reset_units`.

    Returns:
      {path: array that broadcasts to the parameter}.
    """
    rows = graph.unpack(1 - reset)
    share: dict[str, jax.Array] = {}
    groups: list[Callable[[Layer], tuple[Link, ...]]] = [lambda layer: layer.incoming]
    if outgoing != "kept":
        groups.append(lambda layer: layer.outgoing)
    if bias:
        groups.append(lambda layer: layer.bias + layer.scale)
    for layer in graph.layers:
        for link in (link for group in groups for link in group(layer)):
            factor = link.expand(rows[layer.name], len(graph.shapes[link.param]), 1)
            share[link.param] = share[link.param] * factor if link.param in share else factor
    return share


def transferred_bias(
    graph: UnitGraph, params: Params, contribution: jax.Array
) -> dict[str, jax.Array]:
    """Return biases that take over the contributions of units: b + Σ_i contribution_i · W_out[i].

    Args:
      graph: the units.
      params: {path: array}, before the units' outgoing entries are zeroed.
      contribution: [layers, width], a unit's mean activation, or 0 where it stays as it is.

    Returns:
      {path: array} of the changed biases. Readers without a bias are skipped.
    """
    kernels = {k.param: k for k in graph.kernels}
    rows = graph.unpack(contribution)
    new: dict[str, jax.Array] = {}
    for layer in graph.layers:
        for link in layer.outgoing:
            kernel = kernels.get(link.param)
            if kernel is None or kernel.bias is None or not {*link.axes} & {*kernel.inputs}:
                continue  # a query reads no key, so its bias takes over nothing
            w = params[link.param]
            part = _per_output(kernel, w * link.expand(rows[layer.name], w.ndim, 0))
            bias = new.get(kernel.bias, params[kernel.bias])
            new[kernel.bias] = (bias + part.reshape(bias.shape)).astype(bias.dtype)
    return new


def _links(
    graph: UnitGraph, which: Literal["incoming"] | Outgoing
) -> dict[str, list[tuple[Layer, Link]]]:
    by_param: dict[str, list[tuple[Layer, Link]]] = {}
    if which != "kept":
        for layer in graph.layers:
            for link in layer.incoming if which == "incoming" else layer.outgoing:
                by_param.setdefault(link.param, []).append((layer, link))
    return by_param


def _towards(w: jax.Array, r: jax.Array, target: Any) -> jax.Array:
    """Return (1−r)w + r·target; r = 1 replaces even entries that are not finite."""
    return jnp.where(r >= 1, jnp.asarray(target, r.dtype), (1 - r) * w + r * target)


def _per_output(kernel: Kernel, w: jax.Array) -> jax.Array:
    """Sum a kernel-shaped array to the shape of the bias, [*copies, *outputs]."""
    order = (*kernel.copies, *kernel.outputs)
    summed = jnp.sum(w, axis=tuple(a for a in range(w.ndim) if a not in order))
    return summed.transpose([sorted(order).index(a) for a in order])
