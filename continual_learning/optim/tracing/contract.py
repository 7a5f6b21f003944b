"""Contractions with a parameter: the units that its entries read, and those that they make."""

from __future__ import annotations

from typing import Any

import numpy as np

from continual_learning.optim.tracing.facts import Findings
from continual_learning.optim.tracing.labels import NONE, Activation, Data, Entries, Value


def dot(seen: Findings, dims: Any, lhs: Value, rhs: Value, shape: tuple[int, ...]) -> Value | None:
    """Interpret a `dot_general` with a parameter on one side.

    Args:
      seen: the findings, which are extended.
      dims: its dimension numbers.
      lhs: the left operand.
      rhs: the right operand.
      shape: the shape of the result.

    Returns:
      The labels of the result, or None if not exactly one side is a parameter that can be a kernel.
    """
    ((lhs_in, rhs_in), (lhs_copies, rhs_copies)) = dims
    if isinstance(lhs, Entries) and not isinstance(rhs, Entries):
        w, w_in, copies = lhs, lhs_in, lhs_copies
        x, x_order = rhs, (*rhs_copies, *rhs_in)
    elif isinstance(rhs, Entries) and not isinstance(lhs, Entries):
        w, w_in, copies = rhs, rhs_in, rhs_copies
        x, x_order = lhs, (*lhs_copies, *lhs_in)
    else:
        return None
    w_out = [a for a in range(len(w.shape)) if a not in (*w_in, *copies)]
    x_free = [a for a in range(len(x.shape)) if a not in x_order]
    extents = [[w.shape[a] for a in axes] for axes in (copies, w_in, w_out)]
    number = [int(np.prod(e)) for e in extents]
    entries = w.numbers.transpose(*copies, *w_in, *w_out).reshape(number)
    copy, inputs, output = np.indices(number, np.int32, sparse=True)
    read = x.inputs if isinstance(x, Data) else frozenset[int]()
    first = seen.produce(entries, copy, output, inputs, np.zeros(1, np.int32), read)
    if first is None:
        return None
    if isinstance(x, Activation):
        order = (*x_order, *x_free)
        labels, position = (
            part.transpose(order).reshape(number[0], number[1], -1)
            for part in (x.labels, x.position)
        )
        row, place = seen.uniform(x, labels, position)
        seen.read(entries, row[:, :, None], place[:, :, None])
    # The result is [copies, outputs, free] or [copies, free, outputs]; of the free axes the
    # first is the batch, the others are positions.
    free = [x.shape[a] for a in x_free]
    batch = free[:1]
    places = np.arange(int(np.prod(free[1:]))).reshape([1] * len(batch) + free[1:])
    names = np.arange(first, first + number[0] * number[2])
    ones = [1] * len(free)
    if w is lhs:
        names, places = names.reshape(extents[0] + extents[2] + ones), places
    else:
        names = names.reshape(extents[0] + ones + extents[2])
        places = places.reshape(*places.shape, *[1] * len(w_out))
    return Activation(np.broadcast_to(names, shape), np.broadcast_to(places, shape), linear=True)


def conv(
    seen: Findings, params: dict[str, Any], x: Value, w: Value, shape: tuple[int, ...]
) -> Value | None:
    """Interpret a `conv_general_dilated` with a parameter.

    Args:
      seen: the findings, which are extended.
      params: its parameters.
      x: the image.
      w: the kernel.
      shape: the shape of the result.

    Returns:
      The labels of the result, or None if `w` is not a parameter that can be a kernel.
    """
    if not isinstance(w, Entries) or isinstance(x, Entries) or params["batch_group_count"] != 1:
        return None
    lhs, rhs, out = params["dimension_numbers"]  # (batch, feature, *spatial), (out, in, …)
    entries = w.numbers.transpose(rhs)
    entries = entries.reshape(*entries.shape[:2], -1)
    output, inputs, spatial = np.indices([*entries.shape], np.int32, sparse=True)
    first = seen.produce(entries, np.zeros(1, np.int32), output, inputs, spatial)
    if first is None:
        return None
    outputs, per_group = entries.shape[:2]
    if isinstance(x, Activation):
        labels = np.moveaxis(x.labels, lhs[1], 0).reshape(1, x.shape[lhs[1]], -1)
        row, _ = seen.uniform(x, labels, np.full(labels.shape, NONE))
        group = np.arange(outputs) // (outputs // params["feature_group_count"])
        channel = group[:, None] * per_group + np.arange(per_group)
        seen.read(entries, row[0, channel][:, :, None], np.array(NONE))
    extent = [shape[a] for a in out]
    names = np.arange(first, first + outputs).reshape(1, -1, *[1] * len(extent[2:]))
    places = np.arange(int(np.prod(extent[2:]))).reshape(1, 1, *extent[2:])
    back = np.argsort(out)
    return Activation(
        np.broadcast_to(names, extent).transpose(back),
        np.broadcast_to(places, extent).transpose(back),
        linear=True,
    )
