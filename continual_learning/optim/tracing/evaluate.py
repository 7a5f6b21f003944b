"""The evaluation of a program with some of its arrays taken out, and with others added in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, Literal, NamedTuple

import jax
from jax.extend import core

try:
    from jax.extend.core import DropVar
except ImportError:  # before JAX 0.10
    from jax.core import DropVar  # pyright: ignore[reportAttributeAccessIssue]

Address = tuple[int, ...]
"""The address of an equation: its number, or that of an outer equation and an inner address.

In between stands the iteration of the inner program.

(4, 0, 2) is the third equation of the program that the fifth one calls; (4, LOOP, 2) is that of
all iterations of a scan, whose arrays are stacked along a new first axis.
"""

LOOP = -1


class Slot(NamedTuple):
    """An array that goes into an equation, or comes out of it."""

    address: Address
    side: Literal["in", "out"]
    number: int

    @property
    def loops(self) -> int:
        """The number of axes for iterations before the array's own."""
        return self.address[1::2].count(LOOP)


Taken = dict[Slot, jax.Array]

# Operations that run unchanged to keep their own rules; taken arrays are computed beside them.
OWN_RULES = frozenset(
    ["custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "custom_vmap_call"]
)
_REMAT = frozenset(["remat", "remat2", "checkpoint"])


def program_within(params: Mapping[str, Any], inputs: int) -> tuple[Any, Sequence[Any]] | None:
    """Return the program that a call runs on `inputs` arrays, and its constants, or None."""
    for value in params.values():
        jaxpr = getattr(value, "jaxpr", value)
        if hasattr(jaxpr, "eqns") and len(jaxpr.invars) == inputs:
            return jaxpr, getattr(value, "consts", ())
    return None


def scan_parts(eqn: Any, ins: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Return the operands of a `scan`: constants, carry, and arrays that are scanned over.

    The latter have one axis less inside. The shapes decide, since the parameters that name these
    operands differ by version of JAX.
    """
    body = eqn.params["jaxpr"].jaxpr
    outer, inner = ([len(var.aval.shape) for var in vs] for vs in (eqn.outvars, body.outvars))
    carry = sum(a == b for a, b in zip(outer, inner, strict=True))
    outer, inner = ([len(var.aval.shape) for var in vs] for vs in (eqn.invars, body.invars))
    scanned = sum(a != b for a, b in zip(outer, inner, strict=True))
    first = len(ins) - scanned - carry
    return ins[:first], ins[first : first + carry], ins[first + carry :]


def evaluate(
    jaxpr: Any,
    consts: Sequence[Any],
    args: Sequence[Any],
    wanted: Set[Slot],
    added: Mapping[Slot, jax.Array],
    prefix: Address = (),
) -> tuple[list[Any], Taken]:
    """Return the outputs of a program, and the arrays in the slots `wanted`.

    Args:
      jaxpr: the program.
      consts: its constants.
      args: its arguments.
      wanted: the slots of the arrays to take out.
      added: arrays to add to results of equations, by slot.
      prefix: the address of the program in the one to which `wanted` and `added` refer.
    """
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    taken: Taken = {}

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, core.Literal) else env[atom]

    for number, eqn in enumerate(jaxpr.eqns):
        at = (*prefix, number)
        ins = [read(atom) for atom in eqn.invars]
        inner_wanted = {slot for slot in wanted if _within(slot, at)}
        inner_added = {slot: x for slot, x in added.items() if _within(slot, at)}
        if inner_wanted or inner_added:
            outs, inner = _enter(jaxpr, eqn, ins, inner_wanted, inner_added, at)
            taken |= inner
        else:
            outs = _bind(jaxpr, eqn, ins)
        outs = [
            out + added[slot] if (slot := Slot(at, "out", i)) in added else out
            for i, out in enumerate(outs)
        ]
        slots = [(Slot(at, "in", i), x) for i, x in enumerate(ins)]
        slots += [(Slot(at, "out", i), x) for i, x in enumerate(outs)]
        taken |= {slot: x for slot, x in slots if slot in wanted}
        env.update(zip(eqn.outvars, outs, strict=True))
    return [read(atom) for atom in jaxpr.outvars], taken


def _within(slot: Slot, at: Address) -> bool:
    return len(slot.address) > len(at) and slot.address[: len(at)] == at


def _bind(jaxpr: Any, eqn: Any, ins: Sequence[Any]) -> list[Any]:
    """Run an equation unchanged, as a program of this one equation."""
    args = {var: x for var, x in zip(eqn.invars, ins, strict=True) if isinstance(var, core.Var)}
    kept = [not isinstance(var, DropVar) for var in eqn.outvars]
    alone = jaxpr.replace(
        constvars=[],
        invars=list(args),
        outvars=[var for var, keep in zip(eqn.outvars, kept, strict=True) if keep],
        eqns=[eqn],
        effects=eqn.effects,
        debug_info=jaxpr.debug_info._replace(
            arg_names=("",) * len(args), result_paths=("",) * sum(kept)
        ),
    )
    outs = iter(core.jaxpr_as_fun(core.ClosedJaxpr(alone, ()))(*args.values()))
    return [next(outs) if keep else None for keep in kept]


def _enter(
    jaxpr: Any, eqn: Any, ins: list[Any], wanted: Set[Slot], added: Mapping[Slot, Any], at: Address
) -> tuple[list[Any], Taken]:
    """Run an equation with a program inside, from which arrays are taken."""
    name, params = eqn.primitive.name, eqn.params
    if name == "scan":
        looped = {slot.address[len(at)] == LOOP for slot in {*wanted, *added}}
        return (_looped if looped == {True} else _unrolled)(eqn, ins, wanted, added, at)
    found = program_within(params, len(ins))
    if found is None:
        raise ValueError(f"{name!r} holds no program of {len(ins)} arguments.")

    def inside(*ins: Any) -> tuple[list[Any], Taken]:
        return evaluate(*found, ins, wanted, added, (*at, 0))

    if name in _REMAT:
        return jax.checkpoint(inside, prevent_cse=params["prevent_cse"], policy=params["policy"])(
            *ins
        )
    outs, taken = inside(*ins)
    if name in OWN_RULES:
        if added:
            raise ValueError(f"Nothing can be added inside {name!r}: it has rules of its own.")
        outs = _bind(jaxpr, eqn, ins)
    return outs, taken


def _looped(
    eqn: Any, ins: list[Any], wanted: Set[Slot], added: Mapping[Slot, Any], at: Address
) -> tuple[list[Any], Taken]:
    """Run a `scan` as a `scan`; arrays that are taken out or added have an axis for iterations."""
    body = eqn.params["jaxpr"]
    shared, carry, xs = scan_parts(eqn, ins)

    def step(carry: Any, now: Any) -> Any:
        items, added = now
        ins = [*shared, *carry, *items]
        outs, taken = evaluate(body.jaxpr, body.consts, ins, wanted, added, (*at, LOOP))
        return outs[: len(carry)], (outs[len(carry) :], taken)

    params = {key: eqn.params[key] for key in ("length", "reverse", "unroll")}
    carry, (ys, taken) = jax.lax.scan(step, carry, (xs, added), **params)
    return [*carry, *ys], taken


def _unrolled(
    eqn: Any,
    ins: list[Any],
    wanted: Set[Slot],
    added: Mapping[Slot, Any],
    at: Address,
) -> tuple[list[Any], Taken]:
    """Run a `scan` iteration by iteration."""
    body, length = eqn.params["jaxpr"], eqn.params["length"]
    shared, carry, xs = scan_parts(eqn, ins)
    results: list[list[Any]] = [[]] * length
    taken: Taken = {}
    for i in reversed(range(length)) if eqn.params["reverse"] else range(length):
        now = [*shared, *carry, *(x[i] for x in xs)]
        outs, inner = evaluate(body.jaxpr, body.consts, now, wanted, added, (*at, i))
        taken |= inner
        carry, results[i] = outs[: len(carry)], outs[len(carry) :]
    return [*carry, *(jax.numpy.stack(ys) for ys in zip(*results, strict=True))], taken
