"""Element-wise operations, where labels meet and parameters shift or scale, and reductions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from continual_learning.optim.tracing.facts import UNFOLLOWED, Fact, Findings
from continual_learning.optim.tracing.labels import (
    ADDITIVE,
    MIXED,
    NONE,
    Activation,
    Data,
    Entries,
    Value,
    constant_along,
    first_along,
    merged,
    mixed,
    spread,
)

SUMS = frozenset(["add", "add_any", "sub"])


def elementwise(seen: Findings, name: str, ins: list[Value], shape: tuple[int, ...]) -> Value:
    """Interpret an element-wise operation.

    Labels that meet become one unit, but in a product only if they meet one to one, as in a gate.

    Args:
      seen: the findings, which are extended.
      name: the operation.
      ins: its operands.
      shape: the shape of the result.
    """
    acts = [v for v in ins if isinstance(v, Activation)]
    entries = [v for v in ins if isinstance(v, Entries)]
    if len(entries) == 1 and len(ins) <= 2:
        out = _with_entries(seen, name, entries[0], ins, shape)
        if out is not None:
            return out
    if entries:  # they count as data, and are listed
        reason = f"passes through {name!r}"
        if any(v.factors is not None for v in entries):
            reason = f"meets no unit in {name!r}"
        ins = [seen.release(v, reason) for v in ins]
        acts = [v for v in ins if isinstance(v, Activation)]
    if not acts:
        return dataclasses.replace(
            merged((v for v in ins if isinstance(v, Data)), shape), given=True
        )
    out = spread(acts[0], shape)
    for i, act in enumerate(acts[1:]):
        chooses = name == "select_n" and i == 0 and acts[0] is ins[0]
        additive = name in ADDITIVE and not chooses
        out = combine(seen, name, out, spread(act, shape), additive)
    added = ins[1:] if name == "select_n" else ins
    if name in ADDITIVE and any(isinstance(v, Data) and v.written for v in added):
        seen.spoil(out.own_labels(), UNFOLLOWED)
    linear = name in SUMS and all(act.linear for act in acts)
    return dataclasses.replace(out, linear=linear)


def combine(seen: Findings, name: str, a: Activation, b: Activation, additive: bool) -> Activation:
    """Combine the labels of two activations element by element.

    A statistic (MIXED) that meets one of its own units is a normalization, and counts as held
    fixed. Its use is not examined, so that a unit times the mean of its layer counts as one, too.
    (Squeeze-and-excite does not, since there a contraction makes new labels, which meet the unit.)

    Args:
      seen: the findings, which are extended.
      name: the operation.
      a: an activation.
      b: another one, of the same shape.
      additive: whether labels that meet are added.
    """
    one, two = _once(a.labels, b.labels)
    clash = (one >= 0) & (two >= 0) & (one != two)
    pairs = np.unique(np.stack([one[clash], two[clash]]), axis=1).T.tolist()
    if additive:
        for x, y in pairs:
            seen.merge(x, y)
    else:
        seen.gate(pairs, f"meets another unit in {name!r}")
    for statistic, own, others in ((a, one, two), (b, two, one)):
        met = np.unique(others[(own == MIXED) & (others >= 0)]).tolist()
        seen.meet(statistic, met, name, additive)
    labels = np.where(a.labels >= 0, a.labels, b.labels)
    labels = np.where(labels >= 0, labels, np.minimum(a.labels, b.labels))
    position = np.where(a.labels >= 0, a.position, b.position)
    differ = (a.labels >= 0) & (b.labels >= 0) & (a.position != b.position)
    if not (labels == MIXED).any():
        return Activation(labels, np.where(differ, NONE, position))
    written = a.written or b.written
    return Activation(
        labels, np.where(differ, NONE, position), a.sources | b.sources, written=written
    )


def _with_entries(
    seen: Findings, name: str, entries: Entries, ins: list[Value], shape: tuple[int, ...]
) -> Value | None:
    """Interpret an operation on a parameter and at most one other array.

    Args:
      seen: the findings, which are extended.
      name: the operation.
      entries: the parameter.
      ins: all operands.
      shape: the shape of the result.

    Returns:
      The result, or None if the parameter is not used as a bias, a scale or a multiple.
    """
    numbers = np.broadcast_to(entries.numbers, shape)
    (other,) = [v for v in ins if v is not entries] or [Data(())]
    multiple = name in ("mul", "neg") or (name == "div" and entries is ins[0])
    if isinstance(other, Data):
        given = frozenset() if other.given else None
        factors = given if entries.factors is None else entries.factors
        inputs = entries.inputs | other.inputs
        return Entries(numbers, factors, inputs, entries.written) if multiple else None
    if not isinstance(other, Activation) or name not in SUMS | {"mul"}:
        return None
    act = spread(other, shape)
    if name == "mul" and not (act.labels >= 0).any():  # a half of a normalization
        factors = act.sources | (entries.factors or frozenset())
        return Entries(numbers, factors, entries.inputs, entries.written or act.written)
    if entries.factors:  # the other half
        act = combine(seen, name, act, spread(_all_mixed(entries), shape), additive=False)
    if name in SUMS and entries.factors is not None:  # a multiple is not a bias
        seen.lose(numbers, f"passes through {name!r}")
        if entries.inputs or entries.written:
            seen.spoil(act.own_labels(), UNFOLLOWED)
        return dataclasses.replace(act, linear=False)
    facts = seen.scales if name == "mul" else seen.shifts
    linear = act.linear and name in ("add", "add_any")
    pairs, labels = _once(numbers, act.labels)
    known = (labels >= 0) & (pairs >= 0)
    place = np.full(int(known.sum()), NONE)
    facts.append(Fact(pairs[known], labels[known], place, linear))
    alone = np.setdiff1d(pairs[~known], pairs[known])  # entries that meet no unit at any place
    seen.lose(alone, f"meets no unit in {name!r}")
    return act if name in SUMS else dataclasses.replace(act, linear=False)


def _all_mixed(entries: Entries) -> Activation:
    factors = mixed((1,) * len(entries.shape), entries.factors or frozenset())
    assert isinstance(factors, Activation)
    return factors


def _once(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both without the axes along which neither changes."""
    alike = [i for i in range(a.ndim) if constant_along(a, [i]) and constant_along(b, [i])]
    return first_along(a, alike), first_along(b, alike)


def reduction(params: dict[str, Any], x: Activation, shape: tuple[int, ...]) -> Value:
    """Interpret a reduction, which keeps a unit, or makes a statistic of several units.

    Args:
      params: the parameters of the operation.
      x: its operand.
      shape: the shape of the result.
    """
    axes = _window_axes(params) if "window_dimensions" in params else params.get("axes")
    return _reduced(x, (params["axis"],) if axes is None else axes, shape)


def _window_axes(params: dict[str, Any]) -> list[int]:
    """Return the axes along which windows are not simply one per element."""
    trivial = zip(
        params["window_dimensions"],
        params["window_strides"],
        params["base_dilation"] or [1] * len(params["padding"]),
        params["padding"],
        strict=True,
    )
    return [a for a, each in enumerate(trivial) if each != (1, 1, 1, (0, 0))]


def _reduced(act: Activation, axes: Sequence[int], shape: tuple[int, ...]) -> Value:
    labels = act.labels.max(axis=tuple(axes), keepdims=True)
    if not ((act.labels == labels) | (act.labels == NONE)).all():
        return mixed(shape, act.all_sources(), act.written)
    if labels.ndim != len(shape):
        labels = labels.reshape(shape)
    labels, position = np.broadcast_to(labels, shape), np.full(shape, NONE)
    return Activation(labels, position, act.sources, written=act.written)
