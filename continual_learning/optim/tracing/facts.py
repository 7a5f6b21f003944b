"""The findings about a program: the parameter entries that make, read, shift and scale a unit."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from continual_learning.optim.tracing.labels import (
    MIXED,
    NONE,
    Activation,
    Data,
    Entries,
    Value,
    mixed,
)

TIED = "has entries that are used twice"
PAIR = "passes through 'dot_general' as a query or key"
UNFOLLOWED = "adds to what parameters that are not followed make of the input"


class Producer(NamedTuple):
    """A contraction with a parameter; its arrays have an element per entry.

    Attributes:
      first: label of its first unit; the others follow.
      size: number of units.
      entries: the entries that it uses.
      unit: the unit that each entry makes: the output, counted over all copies.
      copy, output, inputs, spatial: the copy of the kernel, the output and the input there, and
        the place in the receptive field.
      given: the numbers of the inputs that it reads, if it reads no units.
    """

    first: int
    size: int
    entries: np.ndarray
    unit: np.ndarray
    copy: np.ndarray
    output: np.ndarray
    inputs: np.ndarray
    spatial: np.ndarray
    given: frozenset[int]


class Fact(NamedTuple):
    """Entries that read, shift or scale units: for each entry a label, and a place or NONE."""

    entries: np.ndarray
    labels: np.ndarray
    position: np.ndarray
    linear: bool = False  # whether a shift follows the contraction directly, and so is its bias


class Record(NamedTuple):
    """An operation as it was interpreted.

    Attributes:
      address: its equation (see evaluate.py), None for data movement without an equation.
      name: its name.
      ins, outs: its operands and its results.
    """

    address: tuple[int, ...] | None
    name: str
    ins: Sequence[Value]
    outs: Sequence[Value]


class Findings:
    """The findings about a program.

    Attributes:
      producers: contractions in program order; no entry is in two of them.
      reads, shifts, scales: facts in program order.
      spoiled: labels that cannot be units, with the reason.
      gated: labels of units that met others in a product.
      queries: labels that stand beside the keys of their units, as if they read them.
      journal: all operations with activations as operands or results, those within calls before
        the call.
    """

    def __init__(self, entries: int, pairs: bool = False):
        """Begin without findings, for parameters with `entries` entries.

        With `pairs`, channels of queries and keys are units.
        """
        self.pairs = pairs
        self.producers: list[Producer] = []
        self.reads: list[Fact] = []
        self.shifts: list[Fact] = []
        self.scales: list[Fact] = []
        self.spoiled: dict[int, str] = {}
        self.gated: set[int] = set()
        self.queries: set[int] = set()
        self.journal: list[Record] = []
        self._parent: list[int] = []
        self._produces = np.zeros(entries, bool)
        self._lost = np.zeros(entries, np.int16)  # the reason's number
        self._reasons = [""]

    # Units -----------------------------------------------------------------------------------

    def unit(self, label: int) -> int:
        """Return the unit of a label; labels that were added together are one unit."""
        while self._parent[label] != label:
            self._parent[label] = self._parent[self._parent[label]]
            label = self._parent[label]
        return label

    def units(self) -> np.ndarray:
        """Return the unit of every label."""
        return np.array([self.unit(i) for i in range(len(self._parent))], int)

    def fresh(self, number: int) -> int:
        """Return the first of `number` new labels."""
        first = len(self._parent)
        self._parent += range(first, first + number)
        return first

    def merge(self, a: int, b: int) -> None:
        """Make two labels one unit."""
        a, b = self.unit(a), self.unit(b)
        self._parent[max(a, b)] = min(a, b)

    def gate(self, pairs: Iterable[tuple[int, int]], reason: str) -> None:
        """Merge labels that meet in a product one to one; otherwise spoil them."""
        units = {(self.unit(x), self.unit(y)) for x, y in pairs}
        units = {(x, y) for x, y in units if x != y}
        if len({x for x, _ in units}) == len(units) == len({y for _, y in units}):
            for x, y in units:
                self.merge(x, y)
            self.gated |= {x for x, _ in units}
        else:
            self.spoil((label for pair in pairs for label in pair), reason)

    def meet(self, statistic: Activation, met: Sequence[int], name: str, additive: bool) -> None:
        """Record that a statistic, at its MIXED elements, meets units.

        A statistic may meet its own units. If it meets others, its own are spoiled; if it is added
        to others, these are spoiled as well, since a computation that is not followed writes there.

        Args:
          statistic: the statistic.
          met: the labels of the units that it meets.
          name: the operation.
          additive: whether the statistic is added to the units.
        """
        if not met:
            return
        own = {self.unit(x) for x in statistic.sources}
        others = [x for x in met if self.unit(x) not in own]
        if others:
            self.spoil(statistic.sources, f"meets another unit in {name!r}")
            if additive:
                self.spoil(others, UNFOLLOWED)

    def spoil(self, labels: Iterable[int], reason: str) -> None:
        """Record that these labels cannot be units. The first reason stays."""
        for label in labels:
            self.spoiled.setdefault(int(label), reason)

    def snapshot(self) -> dict[str, Any]:
        """Return all findings so far."""
        return {name: copy.copy(value) for name, value in vars(self).items()}

    def restore(self, known: dict[str, Any]) -> None:
        """Forget the findings since the snapshot."""
        vars(self).update(known)

    # Entries ---------------------------------------------------------------------------------

    def lose(self, entries: np.ndarray, reason: str) -> None:
        """Record that the use of these entries is not followed. The first reason stays."""
        if reason not in self._reasons:
            self._reasons.append(reason)
        entries = entries[entries >= 0]
        self._lost[entries[self._lost[entries] == 0]] = self._reasons.index(reason)

    def release(self, value: Value, reason: str) -> Value:
        """Lose entries; return data, or the statistics by which they were multiplied."""
        if not isinstance(value, Entries):
            return value
        self.lose(value.numbers, reason)
        if value.factors or value.written:
            return mixed(
                value.shape, value.factors or frozenset(), value.written or bool(value.inputs)
            )
        return Data(value.shape, given=True, inputs=value.inputs, learned=True)

    def lost(self, entries: np.ndarray) -> np.ndarray:
        """Return which of `entries` are used in a way that is not followed."""
        return self._lost[entries] > 0

    def why_lost(self, entries: np.ndarray) -> str | None:
        """Return the reason for the first lost one among `entries`, None if none is lost."""
        if len(self._reasons) == 1:
            return None
        numbers = self._lost[entries]
        return self._reasons[numbers[np.argmax(numbers > 0)]] if numbers.any() else None

    def produces(self, entries: np.ndarray) -> np.ndarray:
        """Return which of `entries` are in a producer."""
        return self._produces[entries]

    # Contractions ----------------------------------------------------------------------------

    def produce(
        self,
        entries: np.ndarray,
        copy: np.ndarray,
        output: np.ndarray,
        inputs: np.ndarray,
        spatial: np.ndarray,
        given: frozenset[int] = frozenset(),
    ) -> int | None:
        """Start new units, and return the label of the first.

        Args:
          entries: [copies, inputs, outputs] or [outputs, inputs, places], the kernel's entries.
          copy: the copy of the kernel of each entry, to broadcast, as below.
          output: its output.
          inputs: its input.
          spatial: its place in the receptive field.
          given: the numbers of the inputs that the contraction reads, if it reads no units.

        Returns:
          The label, or None unless every entry occurs once and in no other contraction.
        """
        if entries.size == 0 or (low := int(entries.min())) < 0:
            return None
        there = np.zeros(int(entries.max()) - low + 1, bool)
        there[entries - low] = True
        before = self._produces[low : low + len(there)]
        if int(there.sum()) != entries.size or (before & there).any():
            return None
        before |= there
        unit = copy * (int(output.max()) + 1) + output
        size = int(unit.max()) + 1
        first = self.fresh(size)
        arrays = (unit, copy, output, inputs, spatial)
        spread = (np.broadcast_to(array, entries.shape).reshape(-1) for array in arrays)
        self.producers.append(Producer(first, size, entries.reshape(-1), *spread, given=given))
        return first

    def uniform(
        self, x: Activation, labels: np.ndarray, position: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the units that weights read, which must not differ by place, and their places.

        Args:
          x: the operand.
          labels: [copies, inputs, places], its labels.
          position: [copies, inputs, places], its positions.

        Returns:
          The labels and the positions [copies, inputs], or NONE where they differ.
        """
        row = labels.max(-1)
        bad = ((labels != row[..., None]) & (labels != NONE)).any(-1) | (row == MIXED)
        if bad.any():
            read = frozenset(np.unique(labels[bad]).tolist()) - {NONE, MIXED}
            read |= x.sources if (labels[bad] == MIXED).any() else frozenset()
            self.spoil(read, "is read together with other units by one weight")
        same = (position == position[..., :1]).all(-1)
        return np.where(bad, NONE, row), np.where(same, position[..., 0], NONE)

    def read(self, entries: np.ndarray, labels: np.ndarray, position: np.ndarray) -> None:
        """Record the unit, and its place, that each entry reads.

        Args:
          entries: any shape.
          labels: the label that each entry reads, to broadcast.
          position: its place, to broadcast.
        """
        labels, position = (np.broadcast_to(a, entries.shape) for a in (labels, position))
        self.reads.append(Fact(entries.reshape(-1), labels.reshape(-1), position.reshape(-1)))
