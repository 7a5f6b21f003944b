"""Programs within programs: calls, and scans of few iterations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from continual_learning.optim.tracing.evaluate import program_within, scan_parts
from continual_learning.optim.tracing.facts import Record
from continual_learning.optim.tracing.labels import Data, Entries, Value

if TYPE_CHECKING:
    from continual_learning.optim.tracing.interpret import Interpreter

# Every iteration is interpreted on its own. Layers are seldom stacked higher than this.
MAX_ITERATIONS = 64


def enter(seen: Interpreter, eqn: Any, ins: list[Value], at: tuple[int, ...]) -> list[Value] | None:
    """The program inside an operation; None if there is none, or too long a scan."""
    found = program_within(eqn.params, len(ins))
    if found is None:
        return None
    jaxpr, consts = found[0], [Data(np.shape(c)) for c in found[1]]
    if eqn.primitive.name == "scan":
        return _scan(seen, eqn, jaxpr, consts, ins, at)
    return seen.run(jaxpr, consts, ins, (*at, 0))


def _scan(
    seen: Interpreter,
    eqn: Any,
    jaxpr: Any,
    consts: list[Data],
    ins: list[Value],
    at: tuple[int, ...],
) -> list[Value] | None:
    """Unrolled: layers stacked in one parameter are read one by one."""
    length = eqn.params["length"]
    if length > MAX_ITERATIONS:
        return None
    shared, carry, xs = scan_parts(eqn, ins)
    results: list[list[Value]] = [[]] * length
    for i in reversed(range(length)) if eqn.params["reverse"] else range(length):
        now = [*shared, *carry, *(_item(seen, x, i) for x in xs)]
        outs = seen.run(jaxpr, consts, now, (*at, i))
        carry, results[i] = outs[: len(carry)], outs[len(carry) :]
    if length == 1:  # used once here, but as often as a longer sequence has steps
        for value in shared:
            if isinstance(value, Entries):
                seen.lose(value.numbers, "is used in every iteration of 'scan'")
    if not results:
        outs = [Data((0, *var.aval.shape)) for var in jaxpr.outvars[len(carry) :]]
        return [*carry, *outs]
    return [*carry, *(_stacked(seen, list(each)) for each in zip(*results, strict=True))]


def _item(seen: Interpreter, value: Value, i: int) -> Value:
    if isinstance(value, Data):
        return Data(value.shape[1:], value.given)
    return _moved(seen, lambda x: x[i], [value])


def _stacked(seen: Interpreter, values: list[Value]) -> Value:
    if all(isinstance(v, Data) for v in values):
        shape = len(values), *values[0].shape
        return Data(shape, any(isinstance(v, Data) and v.given for v in values))
    return _moved(seen, lambda *xs: np.stack(xs), values)


def _moved(seen: Interpreter, function: Callable[..., Any], values: list[Value]) -> Value:
    outs = seen.move("scan", function, values)
    seen.journal.append(Record(None, "scan", values, outs))
    return outs[0]
