"""`trace_units`: the unit graph of a JAX model, read from its program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from continual_learning.optim.tracing.labels import Activation
from continual_learning.optim.tracing.program import Program
from continual_learning.optim.units import UnitGraph


def trace_units(apply_fn: Callable[..., Any], params: Any, *inputs: Any) -> UnitGraph:
    """The units of `apply_fn(params, *inputs)`, whatever its layers are called.

    The program is interpreted with labels in place of numbers: nothing is computed, and no
    convention is followed. Every parameter that is neither a unit's nor the output layer's is left
    alone and listed in `graph.untraced` with the reason; biases and scales of a listed layer go
    without saying.

    Statistics of a layer's units that meet these units again count as those of a norm, which are
    held fixed: a unit times the mean of its layer is followed as if it were one.

    Args:
      apply_fn: returns the network's outputs, in any structure. What it returns is output: do not
        return hidden features beside it.
      params: the parameter tree, or its shapes.
      *inputs: example inputs, or their shapes; their first axis is the batch. A batch of one is
        enough, and the fastest.

    Raises:
      ValueError: nothing that was followed reaches the output; says what became of the parameters.
    """
    program = Program(apply_fn, params, inputs)
    seen, outs, assembly = program.interpreted
    if not outs:
        raise ValueError("The output layer cannot be told: `apply_fn` returns no arrays.")
    outs = [seen.release(value, "is returned") for value in outs]
    acts = [value for value in outs if isinstance(value, Activation)]
    direct = frozenset[int]().union(*(act.own_labels() for act in acts))
    mixed = frozenset[int]().union(*(act.sources for act in acts))
    graph = assembly.graph(direct, mixed, jax.tree.structure(params))
    if not direct | mixed:
        raise ValueError(
            "The output layer cannot be told: no kernel that was followed reaches what `apply_fn` "
            f"returns. {'; '.join(f'{path} {reason}' for path, reason in graph.untraced)}."
        )
    return graph
