"""Programs within programs, in calls and loops."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from continual_learning.optim.tracing.elementwise import combine, elementwise
from continual_learning.optim.tracing.evaluate import LOOP, program_within, scan_parts
from continual_learning.optim.tracing.facts import Record
from continual_learning.optim.tracing.labels import (
    MIXED,
    NONE,
    Activation,
    Data,
    Entries,
    Value,
    constant_along,
    merged,
)

if TYPE_CHECKING:
    from continual_learning.optim.tracing.interpret import Interpreter

# Layers stacked in one parameter are read one by one. There are seldom more of them than this.
MAX_ITERATIONS = 64
# A carry that is made of another one takes one more attempt.
MAX_ATTEMPTS = 8


def enter(seen: Interpreter, eqn: Any, ins: list[Value], at: tuple[int, ...]) -> list[Value] | None:
    """Interpret the program inside an operation.

    Args:
      seen: the interpreter.
      eqn: the equation of the operation.
      ins: its operands.
      at: its address.

    Returns:
      The results, or None if there is no program inside, or it is not followed.
    """
    found = program_within(eqn.params, len(ins))
    if found is None:
        return None
    jaxpr, consts = found[0], [Data(np.shape(c)) for c in found[1]]
    if eqn.primitive.name != "scan":
        return seen.run(jaxpr, consts, ins, (*at, 0))
    shared, _, xs = scan_parts(eqn, ins)
    length = eqn.params["length"]
    stacked = any(isinstance(v, Entries) for v in xs)
    if not stacked and (length > MAX_ITERATIONS or any(isinstance(v, Entries) for v in shared)):
        return _by_body(seen, eqn, jaxpr, consts, ins, at)
    return _unrolled(seen, eqn, jaxpr, consts, ins, at) if length <= MAX_ITERATIONS else None


def _unrolled(
    seen: Interpreter,
    eqn: Any,
    jaxpr: Any,
    consts: list[Data],
    ins: list[Value],
    at: tuple[int, ...],
) -> list[Value]:
    """Interpret a `scan` iteration by iteration, for layers that are stacked in one parameter."""
    length = eqn.params["length"]
    shared, carry, xs = scan_parts(eqn, ins)
    results: list[list[Value]] = [[]] * length
    for i in reversed(range(length)) if eqn.params["reverse"] else range(length):
        now = [*shared, *carry, *(_item(seen, x, i) for x in xs)]
        outs = seen.run(jaxpr, consts, now, (*at, i))
        carry, results[i] = outs[: len(carry)], outs[len(carry) :]
    if length == 1:  # a longer sequence would use the shared parameters several times
        for value in shared:
            if isinstance(value, Entries):
                seen.lose(value.numbers, "is used in every iteration of 'scan'")
    if not results:
        outs = [Data((0, *var.aval.shape)) for var in jaxpr.outvars[len(carry) :]]
        return [*carry, *outs]
    return [*carry, *(_stacked(seen, list(each)) for each in zip(*results, strict=True))]


def _item(seen: Interpreter, value: Value, i: int) -> Value:
    if isinstance(value, Data):
        return merged([value], value.shape[1:])
    return _moved(seen, lambda x: x[i], [value])


def _stacked(seen: Interpreter, values: list[Value]) -> Value:
    data = [v for v in values if isinstance(v, Data)]
    if len(data) == len(values):
        return merged(data, (len(values), *values[0].shape))
    return _moved(seen, lambda *xs: np.stack(xs), values)


def _moved(seen: Interpreter, function: Callable[..., Any], values: list[Value]) -> Value:
    outs = seen.move("scan", function, values)
    seen.journal.append(Record(None, "scan", values, outs))
    return outs[0]


# Recurrence --------------------------------------------------------------------------------------


def _by_body(
    seen: Interpreter,
    eqn: Any,
    jaxpr: Any,
    consts: list[Data],
    ins: list[Value],
    at: tuple[int, ...],
) -> list[Value] | None:
    """Interpret one iteration of a `scan` that stands for all, for recurrent networks."""
    shared, start, xs = scan_parts(eqn, ins)
    if not all(constant_along(x.labels, [0]) for x in xs if isinstance(x, Activation)):
        return None
    inside = jaxpr.invars[len(shared) : len(shared) + len(start)]
    kept = [a is b for a, b in zip(inside, jaxpr.outvars, strict=False)]

    def body(carry: list[Value]) -> list[Value]:
        now = [*shared, *carry, *(_any_item(seen, x) for x in xs)]
        return seen.run(jaxpr, consts, now, (*at, LOOP))

    outs = closed(seen, body, start, kept, "passes through 'scan'")
    if outs is None:
        return None
    length = eqn.params["length"]
    carry = [_after(seen, v, ()) for v in outs[: len(start)]]
    return [*carry, *(_after(seen, v, (length,)) for v in outs[len(start) :])]


def _any_item(seen: Interpreter, value: Value) -> Value:
    """Return an item of a scanned array that stands for all, without places that differ."""
    if not isinstance(value, Activation):
        return _item(seen, value, 0)
    return _moved(seen, lambda x: np.where((x == x[:1]).all(0), x[0], NONE), [value])


def _after(seen: Interpreter, value: Value, lead: tuple[int, ...]) -> Value:
    """Return a result of a loop as an array of its own, of which the body's is a part.

    `lead` holds the axis of the iterations, if the results of all are stacked.
    """
    if isinstance(value, Entries):
        value = seen.release(value, "passes through 'scan'") if lead else value
    if isinstance(value, Data):
        return merged([value], (*lead, *value.shape))
    return _moved(seen, lambda x: np.broadcast_to(x, (*lead, *x.shape)).copy(), [value])


def closed(
    seen: Interpreter,
    body: Callable[[list[Value]], list[Value]],
    start: Sequence[Value],
    kept: Sequence[bool],
    reason: str,
) -> list[Value] | None:
    """Return the results of a loop's body once its carry keeps its labels.

    A run of the body finds the units in its new carry; then it runs again with new labels for
    these units in its carry, which are merged with them. The findings of all runs but the last are
    discarded.

    Args:
      seen: the interpreter.
      body: a function from the carry to the new carry and further results.
      start: the carry before the first iteration.
      kept: which parts of the carry the body returns unchanged.
      reason: the reason to record for parts that cannot be followed.

    Returns:
      The results of the body, or None if the labels do not settle.
    """
    known: list[Activation | Data | None] = [None] * len(start)
    for _ in range(MAX_ATTEMPTS):
        before = seen.snapshot()
        marks = [_mark(seen, value) if isinstance(value, Activation) else None for value in known]
        outs = body(
            [
                value if same else _entering(seen, value, mark or last, reason)
                for value, mark, last, same in zip(start, marks, known, kept, strict=True)
            ]
        )
        for mark, out in zip(marks, outs, strict=False):
            if mark is not None and isinstance(out, Activation):
                combine(seen, "add", mark, out, additive=True)
                seen.spoil(out.sources, reason)
        found = [
            None if same else _pattern(seen, out, reason)
            for out, same in zip(outs, kept, strict=False)
        ]
        if all(_alike(a, b) for a, b in zip(found, known, strict=True)):
            return outs
        seen.restore(before)
        known = found
    return None


def _entering(seen: Interpreter, start: Value, last: Value | None, reason: str) -> Value:
    """Return a part of the carry that stands for `start` and for `last` of a former iteration.

    Args:
      seen: the interpreter.
      start: the part before the first iteration.
      last: the part after an iteration, or None if it is unknown.
      reason: the reason to record for a parameter that is lost.
    """
    if isinstance(last, Activation):
        value = elementwise(seen, "add", [start, last], start.shape)
    else:
        value = seen.release(start, reason)
        if isinstance(value, Data) and isinstance(last, Data):
            value = merged([value, last], value.shape)
    if isinstance(value, Activation):
        value = dataclasses.replace(value)  # an array of its own
        seen.journal.append(Record(None, "carry", [], [value]))
    return value


def _mark(seen: Interpreter, pattern: Activation) -> Activation:
    """Return the pattern with new labels."""
    first = seen.fresh(int(pattern.labels.max()) + 1)
    labels = np.where(pattern.labels >= 0, pattern.labels + first, pattern.labels)
    return dataclasses.replace(pattern, labels=labels)


def _pattern(seen: Interpreter, value: Value, reason: str) -> Activation | Data:
    """Return labels that count the units of a value in order of appearance.

    Args:
      seen: the interpreter.
      value: the value.
      reason: the reason to record for a parameter that is lost.
    """
    value = seen.release(value, reason)
    if not isinstance(value, Activation):
        return merged([value] if isinstance(value, Data) else [], value.shape)
    own, first, inverse = np.unique(value.labels, return_index=True, return_inverse=True)
    units = np.array([seen.unit(x) if x >= 0 else x for x in own.tolist()])
    order = dict.fromkeys(unit for unit in units[np.argsort(first)].tolist() if unit >= 0)
    number = {unit: i for i, unit in enumerate(order)}
    names = np.array([number.get(unit, unit) for unit in units.tolist()])
    labels = names[inverse].reshape(value.shape)
    written = value.written or bool((labels == MIXED).any())
    return Activation(labels, np.full(value.shape, NONE), written=written)


def _alike(a: Value | None, b: Value | None) -> bool:
    if isinstance(a, Activation) and isinstance(b, Activation):
        return np.array_equal(a.labels, b.labels) and a.written == b.written
    return a == b or (isinstance(a, Data) and isinstance(b, Data) and _flags(a) == _flags(b))


def _flags(data: Data) -> tuple[bool, frozenset[int], bool]:
    return data.given, data.inputs, data.learned
