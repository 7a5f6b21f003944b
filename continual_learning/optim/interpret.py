"""Runs a program on labels and notes which parameter entries make, read, shift and scale a unit."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.extend.core import Literal

from continual_learning.optim.contract import conv, dot
from continual_learning.optim.labels import (
    ADDITIVE,
    CALLS,
    ELEMENTWISE,
    MIXED,
    MOVES,
    NONE,
    REDUCTIONS,
    WINDOWS,
    Activation,
    Data,
    Entries,
    Value,
    constant_along,
    first_along,
    mixed,
)


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


class Interpreter:
    """What is known of a program after `run`.

    Attributes:
      producers: contractions in program order.
      reads, shifts, scales: facts in program order.
      spoiled: labels that cannot be told as units, with the reason.
      lost: entries that were used in a way not followed, with the reason.
    """

    def __init__(self):
        self.producers: list[Producer] = []
        self.reads: list[Fact] = []
        self.shifts: list[Fact] = []
        self.scales: list[Fact] = []
        self.spoiled: dict[int, str] = {}
        self.lost: list[tuple[np.ndarray, str]] = []
        self._parent: list[int] = []

    def unit(self, label: int) -> int:
        """The unit of a label: labels that were added together are one."""
        while self._parent[label] != label:
            self._parent[label] = self._parent[self._parent[label]]
            label = self._parent[label]
        return label

    def units(self) -> np.ndarray:
        """The unit of every label."""
        return np.array([self.unit(i) for i in range(len(self._parent))], int)

    def run(self, jaxpr: Any, consts: Sequence[Value], args: Sequence[Value]) -> list[Value]:
        """The outputs of a jaxpr."""
        env: dict[Any, Value] = dict(zip(jaxpr.constvars, consts, strict=True))
        env.update(zip(jaxpr.invars, args, strict=True))

        def read(atom: Any) -> Value:
            return Data(np.shape(atom.val)) if isinstance(atom, Literal) else env[atom]

        for eqn in jaxpr.eqns:
            outs = self._apply(eqn, [read(atom) for atom in eqn.invars])
            env.update(zip(eqn.outvars, outs, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _apply(self, eqn: Any, ins: list[Value]) -> Sequence[Value]:
        name, params = eqn.primitive.name, eqn.params
        shapes = [var.aval.shape for var in eqn.outvars]
        out: Sequence[Value] | Value | None = None
        if all(isinstance(value, Data) for value in ins):
            return [Data(shape) for shape in shapes]
        if name in CALLS:
            out = self._call(params, ins)
        elif name in MOVES:
            out = self._move(name, params, ins)
        elif name in ELEMENTWISE:
            out = self._elementwise(name, ins, shapes[0])
        elif name in REDUCTIONS and isinstance(ins[0], Activation):
            axes = params["axes"] if "axes" in params else (params["axis"],)
            out = _reduced(ins[0], axes, shapes[0])
        elif name in WINDOWS and isinstance(ins[0], Activation):
            axes = [a for a, extent in enumerate(params["window_dimensions"]) if extent > 1]
            out = _reduced(ins[0], axes, shapes[0])
        elif name == "dot_general":
            out = dot(self, params["dimension_numbers"], ins[0], ins[1], shapes[0])
        elif name == "conv_general_dilated":
            out = conv(self, params, ins[0], ins[1], shapes[0])
        if out is None:
            out = self._unknown(f"passes through {name!r}", ins, shapes)
        return out if isinstance(out, Sequence) else [out]

    # What cannot be followed -----------------------------------------------------------------

    def _unknown(self, reason: str, ins: list[Value], shapes: Sequence[Any]) -> list[Activation]:
        sources: frozenset[int] = frozenset()
        for value in ins:
            sources |= self._lose(value, reason)
        return [mixed(shape, sources) for shape in shapes]

    def _lose(self, value: Value, reason: str) -> frozenset[int]:
        if isinstance(value, Entries):
            self.lost.append((np.unique(value.numbers[value.numbers >= 0]), reason))
        if not isinstance(value, Activation):
            return frozenset()
        self._spoil(value.all_sources(), reason)
        return value.all_sources()

    def _spoil(self, labels: Any, reason: str) -> None:
        for label in labels:
            self.spoiled.setdefault(int(label), reason)

    # Calls and data movement -----------------------------------------------------------------

    def _call(self, params: dict[str, Any], ins: list[Value]) -> list[Value] | None:
        for value in params.values():
            jaxpr = getattr(value, "jaxpr", value)
            if hasattr(jaxpr, "eqns") and len(jaxpr.invars) == len(ins):
                consts = [Data(np.shape(c)) for c in getattr(value, "consts", ())]
                return self.run(jaxpr, consts, ins)
        return None

    def _move(self, name: str, params: dict[str, Any], ins: list[Value]) -> list[Value] | None:
        def moved(arrays: list[np.ndarray]) -> list[np.ndarray]:
            outs = MOVES[name](*arrays, **params)
            return outs if isinstance(outs, list) else [outs]

        def part(kind: type, field: str) -> list[np.ndarray]:
            return moved(
                [getattr(v, field) if isinstance(v, kind) else np.full(v.shape, NONE) for v in ins]
            )

        acts = [v for v in ins if isinstance(v, Activation)]
        entries = [v for v in ins if isinstance(v, Entries)]
        if acts and entries:
            return None
        if entries:
            return [Entries(numbers) for numbers in part(Entries, "numbers")]
        sources = frozenset[int]().union(*(v.sources for v in acts))
        linear = all(v.linear for v in acts)
        return [
            Activation(labels, position, sources, linear)
            for labels, position in zip(
                part(Activation, "labels"), part(Activation, "position"), strict=True
            )
        ]

    # Element-wise operations -----------------------------------------------------------------

    def _elementwise(self, name: str, ins: list[Value], shape: tuple[int, ...]) -> Value | None:
        acts = [v for v in ins if isinstance(v, Activation)]
        entries = [v for v in ins if isinstance(v, Entries)]
        if entries and acts:
            if len(ins) == 2:
                return self._with_entries(name, acts[0], entries[0], shape)
            return None
        if entries:  # a multiple of an entry is zero where the entry is; nothing else is
            multiple = name in ("mul", "neg") or (name == "div" and isinstance(ins[0], Entries))
            if len(entries) > 1 or not multiple:
                return None
            return Entries(np.broadcast_to(entries[0].numbers, shape))
        out = _spread(acts[0], shape)
        for i, act in enumerate(acts[1:]):
            chooses = name == "select_n" and i == 0 and acts[0] is ins[0]
            out = self._combine(name, out, _spread(act, shape), name in ADDITIVE and not chooses)
        linear = name in ("add", "add_any", "sub") and all(act.linear for act in acts)
        return dataclasses.replace(out, linear=linear)

    def _combine(self, name: str, a: Activation, b: Activation, additive: bool) -> Activation:
        """Element by element. A statistic (MIXED) that meets a unit is taken as held fixed."""
        one, two = _once(a.labels, b.labels)
        clash = (one >= 0) & (two >= 0) & (one != two)
        for x, y in np.unique(np.stack([one[clash], two[clash]]), axis=1).T.tolist():
            x, y = self.unit(x), self.unit(y)
            if x != y and additive:
                self._parent[max(x, y)] = min(x, y)
            elif x != y:
                self._spoil((x, y), f"meets another unit in {name!r}")
        labels = np.where(a.labels >= 0, a.labels, b.labels)
        labels = np.where(labels >= 0, labels, np.minimum(a.labels, b.labels))
        position = np.where(a.labels >= 0, a.position, b.position)
        differ = (a.labels >= 0) & (b.labels >= 0) & (a.position != b.position)
        sources = a.sources | b.sources if (labels == MIXED).any() else frozenset()
        return Activation(labels, np.where(differ, NONE, position), sources)

    def _with_entries(
        self, name: str, act: Activation, entries: Entries, shape: tuple[int, ...]
    ) -> Value | None:
        act, numbers = _spread(act, shape), np.broadcast_to(entries.numbers, shape)
        fact = _fact(numbers, act)
        if name in ("add", "add_any", "sub"):
            self.shifts.append(fact._replace(linear=act.linear and name != "sub"))
            return act
        if name != "mul":
            return None
        if (act.labels == MIXED).all():  # a statistic times a scale: half of a normalisation
            return Entries(numbers)
        self.scales.append(fact)
        return dataclasses.replace(act, linear=False)

    # Contractions ------------------------------------------------------------------------

    def produce(
        self,
        entries: np.ndarray,
        copy: np.ndarray,
        output: np.ndarray,
        inputs: np.ndarray,
        spatial: np.ndarray,
    ) -> int | None:
        """Starts new units, if every entry is there and none is there twice."""
        if entries.size == 0 or (entries < 0).any():
            return None
        there = np.zeros(int(np.ptp(entries)) + 1, bool)
        there[entries - entries.min()] = True
        if there.sum() != entries.size:
            return None
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
            self._spoil(read, "is read together with other units by one weight")
        same = (position == position[..., :1]).all(-1)
        return np.where(bad, NONE, row), np.where(same, position[..., 0], NONE)

    def read(self, entries: np.ndarray, labels: np.ndarray, position: np.ndarray) -> None:
        """Notes which unit, and which place of it, each entry reads."""
        labels, position = (np.broadcast_to(a, entries.shape) for a in (labels, position))
        self.reads.append(Fact(entries.reshape(-1), labels.reshape(-1), position.reshape(-1)))


def _once(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both without the axes along which neither changes."""
    alike = [i for i in range(a.ndim) if constant_along(a, [i]) and constant_along(b, [i])]
    return first_along(a, alike), first_along(b, alike)


def _fact(numbers: np.ndarray, act: Activation) -> Fact:
    """Which entry meets which unit, each pair once."""
    numbers, labels = _once(numbers, act.labels)
    known = (labels >= 0) & (numbers >= 0)
    return Fact(numbers[known], labels[known], np.full(int(known.sum()), NONE), act.linear)


def _spread(act: Activation, shape: tuple[int, ...]) -> Activation:
    return dataclasses.replace(
        act,
        labels=np.broadcast_to(act.labels, shape),
        position=np.broadcast_to(act.position, shape),
    )


def _reduced(act: Activation, axes: Sequence[int], shape: tuple[int, ...]) -> Activation:
    """A reduction over elements of one unit keeps the unit; over several it is a statistic."""
    labels = act.labels.max(axis=tuple(axes), keepdims=True)
    if not ((act.labels == labels) | (act.labels == NONE)).all():
        return mixed(shape, act.all_sources())
    if labels.ndim != len(shape):
        labels = labels.reshape(shape)
    return Activation(np.broadcast_to(labels, shape), np.full(shape, NONE), act.sources)
