"""Programs within programs: calls, and scans of few iterations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from continual_learning.optim.tracing.evaluate import program_within
from continual_learning.optim.tracing.facts import Record
from continual_learning.optim.tracing.labels import Data, Entries, Value

if TYPE_CHECKING:
    from continual_learning.optim.tracing.interpret import Interpreter

# Every iteration is interpreted on its own. Layers are seldom stacked higher than this.
MAX_ITERATIONS = 64


def enter(
    seen: Interpreter, name: str, params: dict[str, Any], ins: list[Value], at: tuple[int, ...]
) -> list[Value] | None:
    """The program inside an operation; None if there is none, or too long a scan."""
    found = program_within(params, len(ins))
    if found is None:
        return None
    jaxpr, consts = found[0], [Data(np.shape(c)) for c in found[1]]
    if name == "scan":
        return _scan(seen, params, jaxpr, consts, ins, at)
    return seen.run(jaxpr, consts, ins, (*at, 0))


def _scan(
    seen: Interpreter,
    params: dict[str, Any],
    jaxpr: Any,
    consts: list[Data],
    ins: list[Value],
    at: tuple[int, ...],
) -> list[Value] | None:
    """Unrolled: layers stacked in one parameter are read one by one."""
    length = params["length"]
    if length > MAX_ITERATIONS:
        return None
    split = params["num_consts"], params["num_consts"] + params["num_carry"]
    shared, carry, xs = ins[: split[0]], ins[split[0] : split[1]], ins[split[1] :]
    results: list[list[Value]] = [[]] * length
    for i in reversed(range(length)) if params["reverse"] else range(length):
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
