"""`trace_units`: the unit graph of a JAX model, read from its program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from continual_learning.optim.tracing.assemble import Assembly
from continual_learning.optim.tracing.interpret import Interpreter
from continual_learning.optim.tracing.labels import Activation, Value
from continual_learning.optim.tracing.program import Program
from continual_learning.optim.tracing.state import Returned, states, unnamed_carry
from continual_learning.optim.units import UnitGraph


def trace_units(
    apply_fn: Callable[..., Any],
    params: Any,
    *inputs: Any,
    output: Callable[[Any], Any] | None = None,
    carries: Sequence[int] | None = None,
    pairs: bool = False,
) -> UnitGraph:
    """Trace the units of `apply_fn(params, *inputs)`, with any names of its layers.

    The program is interpreted with labels in place of numbers, without computation and without
    conventions. Every parameter that belongs neither to a unit nor to the output layer is left
    alone and listed in `graph.untraced` with the reason.

    Statistics of a layer's units that meet these units again count as those of a norm, which are
    held fixed: a unit times the mean of its layer is followed as if it were normalized.

    Args:
      apply_fn: returns the network's outputs, in any structure, and new state beside them: batch
        statistics, or the carry of a recurrent network.
      params: the parameter tree, or its shapes, or a module of Equinox.
      *inputs: example inputs, or their shapes; their first axis is the batch. A batch of one is
        enough, and the fastest.
      output: selects the network's outputs from the result of `apply_fn`, `lambda out: out[0]`
        say. Without it, state is recognized by its structure, which is that of an input or a
        collection of Flax; if hidden units are returned otherwise, this is an error.
      carries: the numbers of the inputs that are carried from step to step, whose new values
        `apply_fn` returns. Without it, these are the inputs whose structure is returned.
      pairs: whether the channels of queries and keys are units. Such a unit is the channel of both;
        the key's weights count as incoming and the query's as outgoing, since neither has an effect
        without the other. By default they are left alone.

    Raises:
      ValueError: if no kernel that was followed reaches the output, or the output or the carry is
        ambiguous; the message says what to do.
    """
    if output is None:
        program = Program(apply_fn, params, inputs, pairs)
        out, chosen = program.out, []
    else:
        program = Program(_with_selection(apply_fn, output), params, inputs, pairs)
        out, chosen = program.out[1], list(range(len(jax.tree.leaves(program.out[0]))))
    if not program.jaxpr.outvars:
        raise ValueError("The output layer is unknown: `apply_fn` returns no arrays.")
    found = [
        state._replace(leaves=tuple(len(chosen) + leaf for leaf in state.leaves))
        for state in states(out, program.params, program.inputs, carries)
    ]
    if found:
        returned = Returned(*program.interpreted)
        found = [state for state in found if returned.is_state(state)]
    if output is None:
        every, state = range(len(program.jaxpr.outvars)), {i for s in found for i in s.leaves}
        chosen = [i for i in every if i not in state] or list(every)
    loops = [pair for s in found for pair in zip(s.inputs, s.leaves, strict=False)]
    seen, outs, assembly = _interpreted(program, chosen, loops)
    returned = Returned(seen, outs, assembly)
    if output is None and (beside := returned.beside()):
        paths = jax.tree_util.tree_flatten_with_path(out)[0]
        leaf, layer = next(iter(beside.items()))
        raise ValueError(
            f"The result of `apply_fn` holds hidden units of {_name(assembly, layer)!r} in its "
            f"part {jax.tree_util.keystr(paths[chosen[leaf]][0])} beside results computed from "
            "them. Select the part that is the network's output, with `output=lambda out: out[0]` "
            "say, or with `output=lambda out: out` if all of it is."
        )
    carried = {into for into, _ in loops}
    if carries is None and (layer := unnamed_carry(assembly, program.inputs, carried)):
        raise ValueError(
            f"An input looks like the carry of the recurrent {layer}, and is not returned. Let "
            "`apply_fn` return the new carry beside its output, or pass `carries=()` if there is "
            "no carry."
        )
    direct = frozenset[int]().union(*(v.own_labels() for v in outs if isinstance(v, Activation)))
    mixed = frozenset[int]().union(*(v.sources for v in outs if isinstance(v, Activation)))
    graph = assembly.graph(direct, mixed, jax.tree.structure(program.params))
    if not direct | mixed:
        raise ValueError(
            "The output layer is unknown: no kernel that was followed reaches the result of "
            f"`apply_fn`. {'; '.join(f'{path} {reason}' for path, reason in graph.untraced)}."
        )
    return graph


def _with_selection(
    apply_fn: Callable[..., Any], output: Callable[[Any], Any]
) -> Callable[..., tuple[Any, Any]]:
    def both(*args: Any) -> tuple[Any, Any]:
        out = apply_fn(*args)
        return output(out), out

    return both


def _interpreted(
    program: Program, chosen: Sequence[int], loops: Sequence[tuple[int, int]]
) -> tuple[Interpreter, list[Value], Assembly]:
    """Interpret the program that returns the leaves `chosen` and the new values of the loops.

    Args:
      program: the whole program.
      chosen: the numbers of the leaves that are output.
      loops: pairs of the numbers of an input and of the leaf that comes back as this input.

    Returns:
      The findings, the labels of the leaves `chosen`, and the layers.
    """
    if not loops and len(chosen) == len(program.jaxpr.outvars):
        seen, outs, assembly = program.interpreted
    else:
        needed = [*chosen, *(out for _, out in loops)]
        live = [i in needed for i in range(len(program.jaxpr.outvars))]
        place = {leaf: i for i, leaf in enumerate(sorted(set(needed)))}
        closed = [(into, place[out]) for into, out in loops]
        seen, outs, assembly = program.returning(live).interpret(closed)
        outs = [outs[place[leaf]] for leaf in chosen]
    outs = [seen.release(value, "is returned") for value in outs]
    return seen, outs, assembly


def _name(assembly: Assembly, number: int) -> str:
    return next(name for name, own in assembly.names.items() if own == number)
