"""An interpreter that runs a program on labels."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend.core import Literal

from continual_learning.optim.tracing import control
from continual_learning.optim.tracing.attention import product
from continual_learning.optim.tracing.contract import conv, dot
from continual_learning.optim.tracing.elementwise import elementwise, reduction
from continual_learning.optim.tracing.facts import TIED, Findings, Record
from continual_learning.optim.tracing.labels import (
    CALLS,
    COLLECTIVES,
    CONTRACTIONS,
    ELEMENTWISE,
    MOVES,
    REDUCTIONS,
    WINDOWS,
    Activation,
    Data,
    Entries,
    Value,
    merged,
    mixed,
    moved,
)

FOLLOWED = ELEMENTWISE | REDUCTIONS | WINDOWS | MOVES.keys()


class Interpreter(Findings):
    """The findings about a program, which `run` extends."""

    def run(
        self,
        jaxpr: Any,
        consts: Sequence[Value],
        args: Sequence[Value],
        prefix: tuple[int, ...] = (),
    ) -> list[Value]:
        """Return the outputs of a jaxpr on labels.

        Args:
          jaxpr: the program.
          consts: its constants.
          args: its arguments.
          prefix: the beginning of the addresses of its equations.
        """
        env: dict[Any, Value] = dict(zip(jaxpr.constvars, consts, strict=True))
        env.update(zip(jaxpr.invars, args, strict=True))

        def read(atom: Any) -> Value:
            return Data(np.shape(atom.val)) if isinstance(atom, Literal) else env[atom]

        for number, eqn in enumerate(jaxpr.eqns):
            ins, at = [read(atom) for atom in eqn.invars], (*prefix, number)
            outs = self._apply(eqn, ins, at)
            env.update(zip(eqn.outvars, outs, strict=True))
            if any(isinstance(v, Activation) for v in (*ins, *outs)):
                self.journal.append(Record(at, eqn.primitive.name, ins, outs))
        return [read(atom) for atom in jaxpr.outvars]

    def _apply(self, eqn: Any, ins: list[Value], at: tuple[int, ...]) -> Sequence[Value]:
        shapes = [var.aval.shape for var in eqn.outvars]
        data = [v for v in ins if isinstance(v, Data)]
        if len(data) == len(ins):
            return [merged(data, shape) for shape in shapes]
        if eqn.primitive.name in CALLS | {"scan"}:
            out = control.enter(self, eqn, ins, at)
        else:
            out = self._followed(eqn.primitive.name, eqn.params, ins, shapes)
        if out is None:
            return self._unknown(eqn.primitive.name, eqn.params, ins, shapes)
        return out if isinstance(out, Sequence) else [out]

    def _followed(
        self, name: str, params: dict[str, Any], ins: list[Value], shapes: Sequence[Any]
    ) -> Sequence[Value] | Value | None:
        """Return the results of an operation, or None if it is not followed."""
        if name == "optimization_barrier":
            return ins
        if name in MOVES:
            return self.move(name, lambda *arrays: MOVES[name](*arrays, **params), ins)
        if name in ELEMENTWISE:
            return elementwise(self, name, ins, shapes[0])
        if name in REDUCTIONS | WINDOWS and isinstance(ins[0], Activation) and len(shapes) == 1:
            return reduction(params, ins[0], shapes[0])
        known = [v for v in ins if not isinstance(v, Entries)]
        if name in COLLECTIVES and len(known) == len(ins):
            within = {"axes": [axis for axis in params["axes"] if isinstance(axis, int)]}
            return [
                reduction(within, v, shape) if isinstance(v, Activation) else merged([v], shape)
                for v, shape in zip(known, shapes, strict=True)
            ]
        if name in CONTRACTIONS:
            return self._contracted(name, params, ins, shapes[0])
        return None

    def move(self, name: str, function: Callable[..., Any], ins: list[Value]) -> list[Value]:
        """Move elements; parameters that are put beside activations count as data.

        Args:
          name: the operation.
          function: the operation on arrays.
          ins: its operands.
        """
        if any(isinstance(v, Activation) for v in ins):
            ins = [self.release(v, f"is used by {name!r}") for v in ins]
        return moved(function, ins)

    def _contracted(
        self, name: str, params: dict[str, Any], ins: list[Value], shape: tuple[int, ...]
    ) -> Value | None:
        lhs, rhs = (  # a parameter times the input is input
            self.release(v, "meets no unit in 'mul'")
            if isinstance(v, Entries) and v.factors is not None
            else v
            for v in ins
        )
        if name == "dot_general":
            dims = params["dimension_numbers"]
            if not isinstance(lhs, Entries) and not isinstance(rhs, Entries):
                return product(self, dims, lhs, rhs, shape)
            return dot(self, dims, lhs, rhs, shape)
        return conv(self, params, lhs, rhs, shape)

    def _unknown(
        self, name: str, params: dict[str, Any], ins: list[Value], shapes: Sequence[Any]
    ) -> list[Value]:
        """Lose the operands of an operation; its results depend on all of them."""
        what = f"{name!r} of {params['length']} iterations" if name == "scan" else repr(name)
        used = f"passes through {what}" if name in FOLLOWED else f"is used by {what}"
        through = f"passes through {what}"
        entries = [v.numbers for v in ins if isinstance(v, Entries)]
        if name in CONTRACTIONS and any(self.produces(n[n >= 0]).any() for n in entries):
            used, through = TIED, "is read by entries that are used twice"
        released = [self.release(v, used) for v in ins]
        acts = [v for v in released if isinstance(v, Activation)]
        data = merged((v for v in released if isinstance(v, Data)), ())
        sources = frozenset[int]().union(*(act.all_sources() for act in acts))
        self.spoil(sources, through)
        if not acts:
            return [dataclasses.replace(data, shape=shape, given=True) for shape in shapes]
        written = data.written or any(act.written for act in acts)
        return [mixed(shape, sources, written) for shape in shapes]
