"""The history of a program's activations: the last computation of each, and its nonlinearity.

It is found from the journal of an interpreted program, in which calls and scans are opened.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from continual_learning.optim.tracing.elementwise import SUMS
from continual_learning.optim.tracing.evaluate import Slot
from continual_learning.optim.tracing.facts import Record
from continual_learning.optim.tracing.labels import (
    CONTRACTIONS,
    ELEMENTWISE,
    REDUCTIONS,
    WINDOWS,
    Activation,
    Data,
    Entries,
    Value,
)


@dataclasses.dataclass(frozen=True)
class Past:
    """The past of an activation, in numbers of activations.

    Attributes:
      computed: the results of element-wise operations from which it is made by data movement and
        pooling alone.
      root: the argument of the nonlinearity: the last value that is a sum of contractions, biases
        and other values, scaled and normalized.
      affine: whether no nonlinearity was applied to the root yet.
      pooled: whether it was pooled after it was computed.
    """

    computed: frozenset[int]
    root: int
    affine: bool
    pooled: bool


class History:
    """The activations of a program in the order in which they were made.

    Attributes:
      values: their labels.
      pasts: their pasts.
      read: the numbers of those that contractions with parameters read through data movement and
        pooling alone, and of queries and keys.
      contractions: records of the contractions with parameters that made units.
    """

    def __init__(self, journal: Sequence[Record]):
        self.values: list[Activation] = []
        self.pasts: list[Past] = []
        self.read: set[int] = set()
        self.contractions: list[Record] = []
        self._numbers: dict[int, int] = {}  # by the identity of the value
        self._slots: dict[int, Slot] = {}
        for record in journal:
            self._add(record)

    def slot(self, number: int) -> Slot:
        """Return the place of an activation in the program."""
        return self._slots[number]

    def _add(self, record: Record) -> None:
        for i, out in enumerate(record.outs):
            if not isinstance(out, Activation):
                continue
            number = self._numbers.get(id(out))
            if number is None:
                number = len(self.values)
                self.pasts.append(self._past(record, out, number))
                self.values.append(out)
                self._numbers[id(out)] = number
            if record.address is not None:
                # The result of a call is the same array outside of it; the outermost slot is kept.
                slot = Slot(record.address, "out", i)
                old = self._slots.setdefault(number, slot)
                if len(slot.address) < len(old.address):
                    self._slots[number] = slot
        contracts = record.name in CONTRACTIONS and _has_kernel(record)
        if contracts and isinstance(record.outs[0], Activation) and record.outs[0].linear:
            self.contractions.append(record)
            self._read(record.ins)
        elif record.name == "dot_general" and len(_with_units(record.ins)) == 2:
            self._read(record.ins)  # queries and keys

    def _read(self, values: Sequence[Value]) -> None:
        for past in self._pasts(values):
            self.read |= past.computed

    def _pasts(self, values: Sequence[Value]) -> list[Past]:
        return [self.pasts[self._numbers[id(v)]] for v in values if id(v) in self._numbers]

    def _past(self, record: Record, out: Activation, number: int) -> Past:
        itself = Past(frozenset([number]), number, affine=True, pooled=False)
        if record.name == "carry":  # computed by the iteration before
            return Past(frozenset(), number, affine=True, pooled=False)
        averages = record.name == "dot_general" and not _has_kernel(record)
        if record.name in CONTRACTIONS and not averages:
            return itself
        if record.name in ELEMENTWISE:
            return self._elementwise(record, number) or itself
        pasts = self._pasts(_with_units(record.ins) if averages else record.ins)
        roots = {past.root for past in pasts}
        return Past(
            computed=frozenset[int]().union(*(past.computed for past in pasts)),
            root=roots.pop() if len(roots) == 1 else number,
            affine=all(past.affine for past in pasts),
            pooled=averages
            or record.name in REDUCTIONS | WINDOWS
            or any(past.pooled for past in pasts),
        )

    def _elementwise(self, record: Record, number: int) -> Past | None:
        ins = record.ins
        units = _with_units(ins)
        if not units:
            return None
        # A pooled value beside one that is not is a statistic, such as that of an instance norm.
        full = [v for v in units if not self._pasts([v])[0].pooled]
        operands = full or units
        pasts = self._pasts(operands)
        linear = _is_linear(record.name, ins, operands)
        affine = linear and all(past.affine for past in pasts)
        roots = {past.root for past in pasts}
        bent = [past for past in pasts if not past.affine]
        if record.name == "mul" and len(roots) > 1 and len(bent) == 1:  # a gate
            root = bent[0].root
        elif len(roots) > 1:  # a residual sum, all of which later operations are applied to
            root, affine = number, True
        elif affine and any(_is_array(v) and not _among(v, operands) for v in ins):
            root = number  # a bias, a scale, a normalization
        else:
            root = roots.pop()
        root = root if root in self._slots else number  # the carry of a loop has no slot
        if linear and not full:  # mean pooling divides a sum
            computed = frozenset[int]().union(*(past.computed for past in pasts))
            return Past(computed, root, affine, pooled=True)
        return Past(frozenset([number]), root, affine, pooled=False)


def _has_kernel(record: Record) -> bool:
    return any(isinstance(v, Entries) for v in record.ins)


def _with_units(values: Sequence[Value]) -> list[Activation]:
    return [v for v in values if isinstance(v, Activation) and (v.labels >= 0).any()]


def _is_linear(name: str, ins: Sequence[Value], operands: Sequence[Value]) -> bool:
    """Return whether an element-wise operation is linear in `operands`."""
    if name in SUMS or name == "neg":
        return True
    if name in ("mul", "div"):
        return len(operands) == 1 and (name == "mul" or ins[0] is operands[0])
    return name == "select_n" and not isinstance(ins[0], Activation)


def _is_array(value: Value) -> bool:
    """Return whether it is more than a scalar constant."""
    return not isinstance(value, Data) or int(np.prod(value.shape)) > 1


def _among(value: Value, values: Sequence[Value]) -> bool:
    return any(value is v for v in values)
