"""Products of two activations: positions that are mixed, and queries that meet keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from continual_learning.optim.tracing.facts import PAIR, Findings
from continual_learning.optim.tracing.labels import (
    NONE,
    Activation,
    Data,
    Value,
    constant_along,
    first_along,
    mixed,
)


class _Side(NamedTuple):
    """One operand: its value, and its axes that are copies, free and contracted."""

    value: Value
    copies: Sequence[int]
    free: Sequence[int]
    contracted: Sequence[int]

    def extents(self, axes: Sequence[int]) -> list[int]:
        return [self.value.shape[a] for a in axes]

    def units(self) -> bool:
        """Return whether it holds units."""
        return isinstance(self.value, Activation) and bool((self.value.labels >= 0).any())


def product(
    seen: Findings, dims: Any, lhs: Value, rhs: Value, shape: tuple[int, ...]
) -> Value | None:
    """Interpret a `dot_general` of two arrays that are not parameters.

    Attention (Vaswani et al., 2017, arXiv 1706.03762) has two of them. Its scores are sums over
    channels of query times key, in which units meet in pairs. Its values are averaged over
    positions, so that a channel stays one unit.

    Args:
      seen: the findings, which are extended.
      dims: its dimension numbers.
      lhs: the left operand.
      rhs: the right operand.
      shape: the shape of the result.

    Returns:
      The labels of the result, or None if it is not followed.
    """
    sides = []
    for value, contracted, copies in zip((lhs, rhs), *dims, strict=True):
        free = [a for a in range(len(value.shape)) if a not in (*contracted, *copies)]
        sides.append(_Side(value, copies, free, contracted))
    first, second = sides
    if first.units() and second.units():
        return _paired(seen, first, second, shape)
    if first.units():
        return _averaged(seen, first, second, True, shape)
    return _averaged(seen, second, first, False, shape) if second.units() else None


def _averaged(
    seen: Findings, own: _Side, other: _Side, first: bool, shape: tuple[int, ...]
) -> Value | None:
    """Interpret weighted sums over places of one unit, which belong to this unit."""
    act = own.value
    assert isinstance(act, Activation)
    labels = act.labels.transpose(*own.copies, *own.free, *own.contracted)
    labels = labels.reshape(*labels.shape[: len(labels.shape) - len(own.contracted)], -1)
    row = labels.max(-1)
    if not ((labels == row[..., None]) | (labels == NONE)).all():
        return None
    if isinstance(other.value, Activation):
        met = np.unique(row[row >= 0]).tolist()
        seen.meet(other.value, met, "dot_general", additive=False)
    copies, free, ones = own.extents(own.copies), own.extents(own.free), [1] * len(other.free)
    row = row.reshape([*copies, *free, *ones] if first else [*copies, *ones, *free])
    return Activation(
        np.broadcast_to(row, shape), np.full(shape, NONE), act.sources, written=act.written
    )


def _paired(seen: Findings, lhs: _Side, rhs: _Side, shape: tuple[int, ...]) -> Value | None:
    """Interpret sums over channels of queries and keys, which have no effect alone."""
    left, right = _channels(lhs), _channels(rhs)
    # Where several heads meet several heads, a channel meets more than one on either side.
    if left is None or right is None or len(left) > 1 < len(right):
        return None
    both = np.stack(np.broadcast_arrays(left, right)).reshape(2, -1)
    met = np.unique(both, axis=1).T.tolist()
    pairs = {(seen.unit(x), seen.unit(y)) for x, y in met}
    # A key may have several queries (Ainslie et al., 2023, arXiv 2305.13245), but a query only one
    # key.
    queries, keys = ({pair[i] for pair in pairs} for i in (0, 1))
    if len(queries) < len(pairs):
        pairs, queries, keys = {(y, x) for x, y in pairs}, keys, queries
    if len(queries) < len(pairs) or queries & keys:
        return None
    if not seen.pairs:
        seen.spoil(queries | keys, PAIR)
        return mixed(shape, frozenset(queries | keys))
    seen.queries |= set(np.flatnonzero(np.isin(seen.units(), list(queries))).tolist())
    seen.gated |= queries
    for query, key in pairs:
        seen.merge(query, key)
    return Data(shape, given=True)


def _channels(side: _Side) -> np.ndarray | None:
    """Return [heads, channels], the labels along copies and contracted axes; None without units.

    Heads are the different rows along the free axes; positions have equal rows.
    """
    act = side.value
    assert isinstance(act, Activation)
    labels = act.labels.transpose(*side.free, *side.copies, *side.contracted)
    labels = first_along(labels, [a for a in range(len(side.free)) if constant_along(labels, [a])])
    rows = labels.reshape(int(np.prod(labels.shape[: len(side.free)])), -1)
    return np.unique(rows, axis=0) if (rows >= 0).all() else None
