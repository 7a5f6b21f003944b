"""Programs within programs: calls, and scans of few iterations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from continual_learning.optim.labels import Data, Entries, Value, moved

if TYPE_CHECKING:
    from continual_learning.optim.interpret import Interpreter

# Every iteration is interpreted on its own. Layers are seldom stacked higher than this.
MAX_ITERATIONS = 64


def call(seen: Interpreter, params: dict[str, Any], ins: list[Value]) -> list[Value] | None:
    """`jit`, `checkpoint`, a custom derivative: the program inside, None if there is none."""
    for value in params.values():
        if hasattr(getattr(value, "jaxpr", value), "eqns"):
            jaxpr, consts = _opened(value)
            if len(jaxpr.invars) == len(ins):
                return seen.run(jaxpr, consts, ins)
    return None


def scan(seen: Interpreter, params: dict[str, Any], ins: list[Value]) -> list[Value] | None:
    """A scan, unrolled: layers stacked in one parameter are read one by one."""
    length = params["length"]
    if length > MAX_ITERATIONS:
        return None
    jaxpr, consts = _opened(params["jaxpr"])
    split = params["num_consts"], params["num_consts"] + params["num_carry"]
    shared, carry, xs = ins[: split[0]], ins[split[0] : split[1]], ins[split[1] :]
    results: list[list[Value]] = [[]] * length
    for i in reversed(range(length)) if params["reverse"] else range(length):
        outs = seen.run(jaxpr, consts, [*shared, *carry, *(_item(x, i) for x in xs)])
        carry, results[i] = outs[: len(carry)], outs[len(carry) :]
    if length == 1:  # used once here, but as often as a longer sequence has steps
        for value in shared:
            if isinstance(value, Entries):
                seen.lose(value.numbers, "is used in every iteration of 'scan'")
    if not results:
        outs = [Data((0, *var.aval.shape)) for var in jaxpr.outvars[len(carry) :]]
        return [*carry, *outs]
    return [*carry, *(_stacked(seen, list(each)) for each in zip(*results, strict=True))]


def _opened(program: Any) -> tuple[Any, list[Data]]:
    """A jaxpr, closed or not, and its constants."""
    consts = [Data(np.shape(c)) for c in getattr(program, "consts", ())]
    return getattr(program, "jaxpr", program), consts


def _item(value: Value, i: int) -> Value:
    if isinstance(value, Data):
        return Data(value.shape[1:], value.given)
    return moved(lambda x: x[i], [value])[0]


def _stacked(seen: Interpreter, values: list[Value]) -> Value:
    if all(isinstance(v, Data) for v in values):
        shape = len(values), *values[0].shape
        return Data(shape, any(isinstance(v, Data) and v.given for v in values))
    return seen.move("scan", lambda *xs: np.stack(xs), values)[0]
