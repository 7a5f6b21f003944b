"""Unit graphs of plain chains of layers, from shapes alone or from a list of kernels."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.optim import trees
from continual_learning.optim.links import Kernel, Layer, Link
from continual_learning.optim.units import UnitGraph

Layout = Literal["in_out", "out_in"]
Flatten = Literal["channels_last", "channels_first"]

_HOW_TO = (
    "Pass `units=` a graph: `trace_units(apply_fn, params, *inputs)` for any model, or "
    "`sequential_units(params, [kernel paths in order], ...)` for a chain of dense and conv layers."
)


class _Weights(NamedTuple):
    kernel: str
    bias: str | None


def recognize_units(params: Any) -> UnitGraph:
    """Return the graph of a plain sequential dense network, read off its parameter tree.

    Kernels are the 2-D leaves in natural order of their paths (`layer_10` after `layer_2`), each
    in a container of its own beside its bias, or all in one flat container. The function accepts
    a network only if the shapes form a chain in exactly one way; all others (with conv kernels,
    norms, several branches, or square kernels that could be stored transposed) are an error.
    """
    leaves = trees.named_leaves(params)
    paths = sorted(leaves, key=trees.natural)
    shapes = {p: jnp.shape(leaf) for p, leaf in leaves.items() if not trees.is_masked(leaf)}
    deep = [p for p in paths if len(shapes.get(p, ())) > 2]
    if deep:
        raise ValueError(
            f"{deep[0]!r} has shape {shapes[deep[0]]}: only dense networks (2-D kernels) are "
            f"recognized from their parameters. {_HOW_TO}"
        )
    kernels = [p for p in paths if len(shapes.get(p, ())) == 2]
    if len(kernels) < 2:  # there is no hidden layer
        return _single(params, shapes, kernels)

    parents = {_parent(_parent(k)) for k in kernels}
    if len({_parent(k) for k in kernels}) > 1 and len(parents) > 1:
        raise ValueError(
            "The kernels do not lie side by side, so that their order is unknown: "
            f"{', '.join(kernels)}. {_HOW_TO}"
        )
    _refuse_gaps(paths, leaves, kernels)
    chain = _pair_biases(paths, shapes, kernels)
    layouts: list[Layout] = [x for x in ("in_out", "out_in") if _fits(chain, shapes, x)]
    if layouts == ["out_in"] and all(weights.bias is None for weights in chain):
        layouts = []  # an [in, out] chain listed from its end looks the same without biases
    if not layouts:
        listing = ", ".join(f"{k} {shapes[k]}" for k in kernels)
        raise ValueError(
            f"The kernels, in natural order, do not form a chain of layers: {listing}. {_HOW_TO}"
        )
    if len(layouts) == 2:
        raise ValueError(
            "The shapes do not tell whether kernels are stored [in, out] or [out, in]: "
            f"{', '.join(f'{k} {shapes[k]}' for k in kernels)}. "
            f"Name the layout: `sequential_units(params, {kernels!r}, layout='in_out')`."
        )
    return _chain(params, chain, layouts[0], "channels_last")


def sequential_units(
    params: Any,
    kernels: Sequence[str],
    *,
    layout: Layout = "in_out",
    flatten: Flatten = "channels_last",
) -> UnitGraph:
    """Return the graph of a chain of dense and conv layers, given its kernels in order.

    Args:
      params: the parameter tree.
      kernels: paths of the kernels from input to output, the output layer's included. The bias of
        a layer is the only vector beside its kernel.
      layout: "in_out" for [in, out] and [*spatial, in, out] (HWIO), "out_in" for [out, in] and
        [out, in, *spatial] (OIHW).
      flatten: the order in which a conv layer is flattened for the dense layer that reads it:
        "channels_last" is the plain reshape of NHWC, "channels_first" that of NCHW.
    """
    if layout not in ("in_out", "out_in"):
        raise ValueError(f"layout must be 'in_out' or 'out_in', got {layout!r}.")
    if flatten not in ("channels_last", "channels_first"):
        raise ValueError(f"flatten must be 'channels_last' or 'channels_first', got {flatten!r}.")
    shapes = {p: jnp.shape(x) for p, x in trees.arrays(params).items()}
    unknown = [k for k in kernels if len(shapes.get(k, ())) < 2]
    if unknown:
        known = [p for p, shape in shapes.items() if len(shape) >= 2]
        raise ValueError(f"{unknown} are not kernels of these parameters. Kernels: {known}.")
    chain = []
    for kernel in kernels:
        beside = [p for p, s in shapes.items() if _parent(p) == _parent(kernel) and len(s) == 1]
        if len(beside) > 1:
            raise ValueError(
                f"Several vectors lie beside {kernel!r}, {beside}, and any of them may be its "
                "bias. Use `trace_units(apply_fn, params, *inputs)`."
            )
        chain.append(_Weights(kernel, beside[0] if beside else None))
    return _chain(params, chain, layout, flatten)


def _single(params: Any, shapes: dict[str, tuple[int, ...]], kernels: list[str]) -> UnitGraph:
    """Return the graph of one kernel or none; the only vector beside it is its bias if it fits."""
    chain, layout = [_Weights(k, None) for k in kernels], "in_out"
    for kernel in kernels:
        beside = [p for p, s in shapes.items() if _parent(p) == _parent(kernel) and len(s) == 1]
        paired = [_Weights(kernel, *beside)] if len(beside) == 1 else chain
        for candidate in ("out_in", "in_out"):  # the latter where both fit
            if _fits(paired, shapes, candidate):
                chain, layout = paired, candidate
    return _chain(params, chain, layout, "channels_last")


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _refuse_gaps(paths: list[str], leaves: dict[str, Any], kernels: list[str]) -> None:
    """Raise a ValueError if a masked leaf within the chain may hide a layer.

    A masked leaf beside a single kernel hides none.
    """
    holders = [_parent(k) for k in kernels]
    amid = paths[paths.index(kernels[0]) : paths.index(kernels[-1])]
    hidden = [p for p in amid if trees.is_masked(leaves[p]) and holders.count(_parent(p)) != 1]
    if hidden:
        raise ValueError(
            f"{hidden[0]!r} is masked and lies between {kernels[0]!r} and {kernels[-1]!r}: a layer "
            f"may be missing from the chain. {_HOW_TO}"
        )


def _pair_biases(
    paths: list[str], shapes: dict[str, tuple[int, ...]], kernels: list[str]
) -> list[_Weights]:
    """Pair kernels with biases: with the only vector beside each, or one each in natural order."""
    by_holder: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        if len(shapes.get(path, ())) == 1:
            by_holder[_parent(path)].append(path)
    bias_of: dict[str, str] = {}
    for holder, vectors in by_holder.items():
        owners = [k for k in kernels if _parent(k) == holder]
        if len(vectors) != len(owners):
            raise ValueError(
                f"The role of {', '.join(vectors)} is unknown: {len(owners)} kernels lie beside "
                f"them, and every kernel has at most one bias. {_HOW_TO}"
            )
        bias_of.update(zip(owners, vectors, strict=True))
    return [_Weights(k, bias_of.get(k)) for k in kernels]


def _fits(chain: list[_Weights], shapes: dict[str, tuple[int, ...]], layout: Layout) -> bool:
    i, o = (0, 1) if layout == "in_out" else (1, 0)
    linked = all(shapes[a.kernel][o] == shapes[b.kernel][i] for a, b in itertools.pairwise(chain))
    return linked and all(w.bias is None or shapes[w.bias] == (shapes[w.kernel][o],) for w in chain)


def _chain(params: Any, chain: Sequence[_Weights], layout: Layout, flatten: Flatten) -> UnitGraph:
    shapes = {p: jnp.shape(x) for p, x in trees.arrays(params).items()}
    kernels = [_kernel(w, len(shapes[w.kernel]), layout) for w in chain]
    layers = []
    for kernel, reader in itertools.pairwise(kernels):
        (out,) = kernel.outputs
        size = shapes[kernel.param][out]
        units = np.arange(size)
        if kernel.bias is not None and shapes[kernel.bias] != (size,):
            raise ValueError(
                f"{kernel.bias!r} has shape {shapes[kernel.bias]}, but {kernel.param!r} of shape "
                f"{shapes[kernel.param]} has {size} outputs: is the layout {layout!r} right?"
            )
        layers.append(
            Layer(
                name=kernel.param,
                size=size,
                incoming=(Link(kernel.param, (out,), units),),
                bias=() if kernel.bias is None else (Link(kernel.bias, (0,), units),),
                outgoing=(_reader_link(reader, shapes, kernel, size, flatten),),
            )
        )
    return UnitGraph(tuple(layers), tuple(kernels), shapes, jax.tree.structure(params))


def _kernel(weights: _Weights, ndim: int, layout: Layout) -> Kernel:
    spatial = tuple(range(ndim - 2)) if layout == "in_out" else tuple(range(2, ndim))
    inputs, outputs = (ndim - 2, ndim - 1) if layout == "in_out" else (1, 0)
    return Kernel(weights.kernel, (inputs,), (outputs,), spatial, bias=weights.bias)


def _reader_link(
    reader: Kernel,
    shapes: dict[str, tuple[int, ...]],
    producer: Kernel,
    size: int,
    flatten: Flatten,
) -> Link:
    (axis,) = reader.inputs
    rows = shapes[reader.param][axis]
    if rows == size:
        return Link(reader.param, (axis,), np.arange(size))
    if reader.spatial or not producer.spatial or rows % size:
        raise ValueError(
            f"{reader.param!r} of shape {shapes[reader.param]} cannot read the {size} units of "
            f"{producer.param!r}: it has {rows} inputs."
        )
    positions = rows // size
    row = np.arange(rows)
    if flatten == "channels_last":
        return Link(reader.param, (axis,), row % size, row // size)
    return Link(reader.param, (axis,), row // positions, row % positions)
