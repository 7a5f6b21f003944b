"""What is found out about a program: which parameter entries make, read, shift and scale a unit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from continual_learning.optim.tracing.labels import MIXED, NONE, Activation, Entries, Value, mixed

TIED = "has entries that are used twice"


class Producer(NamedTuple):
    """A contraction with a parameter; arrays run over its entries.

    Attributes:
      first: label of its first unit; the others follow.
      size: number of units.
      entries: which entries it uses.
      unit: which of its units each makes: the output, counted over all copies.
      copy, output, inputs, spatial: the copy of the kernel, the output and the input there, and
        the place in the receptive field.
    """

    first: int
    size: int
    entries: np.ndarray
    unit: np.ndarray
    copy: np.ndarray
    output: np.ndarray
    inputs: np.ndarray
    spatial: np.ndarray


class Fact(NamedTuple):
    """Entries that read, shift or scale units: for each entry a label, and a place or NONE."""

    entries: np.ndarray
    labels: np.ndarray
    position: np.ndarray
    linear: bool = False  # of a shift: right after the contraction, so that it is its bias


class Record(NamedTuple):
    """An operation as it was interpreted.

    Attributes:
      address: its equation (see evaluate.py), None for data movement that has none.
      name: its name.
      ins, outs: what went in and came out.
    """

    address: tuple[int, ...] | None
    name: str
    ins: Sequence[Value]
    outs: Sequence[Value]


class Findings:
    """What is known of a program.

    Attributes:
      producers: contractions in program order; no entry is in two of them.
      reads, shifts, scales: facts in program order.
      spoiled: labels that cannot be told as units, with the reason.
      journal: all operations that activations went through, those within calls before the call.
    """

    def __init__(self, entries: int):
        """`entries`: how many the parameters have."""
        self.producers: list[Producer] = []
        self.reads: list[Fact] = []
        self.shifts: list[Fact] = []
        self.scales: list[Fact] = []
        self.spoiled: dict[int, str] = {}
        self.journal: list[Record] = []
        self._parent: list[int] = []
        self._produces = np.zeros(entries, bool)
        self._lost = np.zeros(entries, np.int16)  # the reason's number
        self._reasons = [""]

    # Units -----------------------------------------------------------------------------------

    def unit(self, label: int) -> int:
        """The unit of a label: labels that were added together are one."""
        while self._parent[label] != label:
            self._parent[label] = self._parent[self._parent[label]]
            label = self._parent[label]
        return label

    def units(self) -> np.ndarray:
        """The unit of every label."""
        return np.array([self.unit(i) for i in range(len(self._parent))], int)

    def merge(self, a: int, b: int) -> None:
        """From now on these labels are one unit."""
        a, b = self.unit(a), self.unit(b)
        self._parent[max(a, b)] = min(a, b)

    def spoil(self, labels: Iterable[int], reason: str) -> None:
        """These cannot be told as units. The first reason stays."""
        for label in labels:
            self.spoiled.setdefault(int(label), reason)

    # Entries ---------------------------------------------------------------------------------

    def lose(self, entries: np.ndarray, reason: str) -> None:
        """What is done with these entries is not followed. The first reason stays."""
        if reason not in self._reasons:
            self._reasons.append(reason)
        entries = entries[entries >= 0]
        self._lost[entries[self._lost[entries] == 0]] = self._reasons.index(reason)

    def release(self, value: Value, reason: str) -> Value:
        """Loses entries: what stays is data, or the statistics they were multiplied by."""
        if not isinstance(value, Entries):
            return value
        self.lose(value.numbers, reason)
        return mixed(value.shape, value.factors or frozenset())

    def lost(self, entries: np.ndarray) -> np.ndarray:
        """Which of `entries` are used in a way not followed."""
        return self._lost[entries] > 0

    def why_lost(self, entries: np.ndarray) -> str | None:
        """The reason for the first lost one among `entries`, None if there is none."""
        if len(self._reasons) == 1:
            return None
        numbers = self._lost[entries]
        return self._reasons[numbers[np.argmax(numbers > 0)]] if numbers.any() else None

    def produces(self, entries: np.ndarray) -> np.ndarray:
        """Which of `entries` are in a producer."""
        return self._produces[entries]

    # Contractions ----------------------------------------------------------------------------

    def produce(
        self,
        entries: np.ndarray,
        copy: np.ndarray,
        output: np.ndarray,
        inputs: np.ndarray,
        spatial: np.ndarray,
    ) -> int | None:
        """Starts new units; None unless every entry is there, once, and in no other contraction."""
        if entries.size == 0 or (low := int(entries.min())) < 0:
            return None
        there = np.zeros(int(entries.max()) - low + 1, bool)
        there[entries - low] = True
        before = self._produces[low : low + len(there)]
        if int(there.sum()) != entries.size or (before & there).any():
            return None
        before |= there
        unit = copy * (int(output.max()) + 1) + output
        first, size = len(self._parent), int(unit.max()) + 1
        self._parent += range(first, first + size)
        arrays = (unit, copy, output, inputs, spatial)
        spread = (np.broadcast_to(array, entries.shape).reshape(-1) for array in arrays)
        self.producers.append(Producer(first, size, entries.reshape(-1), *spread))
        return first

    def uniform(
        self, x: Activation, labels: np.ndarray, position: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """[copies, inputs, places] -> what a weight reads, which must not differ by place."""
        row = labels.max(-1)
        bad = ((labels != row[..., None]) & (labels != NONE)).any(-1) | (row == MIXED)
        if bad.any():
            read = frozenset(np.unique(labels[bad]).tolist()) - {NONE, MIXED}
            read |= x.sources if (labels[bad] == MIXED).any() else frozenset()
            self.spoil(read, "is read together with other units by one weight")
        same = (position == position[..., :1]).all(-1)
        return np.where(bad, NONE, row), np.where(same, position[..., 0], NONE)

    def read(self, entries: np.ndarray, labels: np.ndarray, position: np.ndarray) -> None:
        """Notes which unit, and which place of it, each entry reads."""
        labels, position = (np.broadcast_to(a, entries.shape) for a in (labels, position))
        self.reads.append(Fact(entries.reshape(-1), labels.reshape(-1), position.reshape(-1)))
