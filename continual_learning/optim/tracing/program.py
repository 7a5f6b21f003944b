"""The program of a model, with its equations and their labels."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import partial_eval

from continual_learning.optim import trees
from continual_learning.optim.tracing.assemble import Assembly
from continual_learning.optim.tracing.control import closed
from continual_learning.optim.tracing.evaluate import Slot, Taken, evaluate, program_within
from continual_learning.optim.tracing.interpret import Interpreter
from continual_learning.optim.tracing.labels import Data, Entries, Value
from continual_learning.optim.units import UnitGraph


class Program:
    """The program of `function(params, *inputs)` for arrays of these shapes."""

    def __init__(
        self,
        function: Callable[..., Any],
        params: Any,
        inputs: Sequence[Any],
        pairs: bool = False,
    ):
        self.pairs = pairs
        params, combined = trees.parameters(params)
        self.function = lambda params, *inputs: function(combined(params), *inputs)
        self.params, *self.inputs = jax.tree.map(_abstract, (params, *inputs))
        closed, self.out = _traced(self.function, self.params, *self.inputs)
        self.consts = closed.consts
        self.out_tree = jax.tree.structure(self.out)
        # Results that are never read, such as discarded running statistics, do not use a unit.
        live = [True] * len(closed.jaxpr.outvars)
        self.jaxpr, _ = partial_eval.dce_jaxpr(closed.jaxpr, live, instantiate=True)
        leaves, structure = jax.tree.flatten((self.params, self.inputs))
        self.key = structure, *((x.shape, x.dtype) for x in leaves)

    def run(
        self,
        params: Any,
        inputs: Sequence[Any],
        wanted: Set[Slot],
        added: Mapping[Slot, jax.Array] | None = None,
    ) -> tuple[Any, Taken]:
        """Return the function's result, and the arrays in the slots `wanted`.

        Args:
          params: the parameters.
          inputs: the inputs.
          wanted: the slots of the arrays to take out.
          added: arrays to add to results of equations, by slot.
        """
        params, _ = trees.parameters(params)
        args = [jnp.asarray(x) for x in jax.tree.leaves((params, *inputs))]
        outs, taken = evaluate(self.jaxpr, self.consts, args, wanted, added or {})
        return jax.tree.unflatten(self.out_tree, outs), taken

    def equation(self, slot: Slot) -> Any:
        """Return the equation of a slot."""
        return self.way(slot)[-1]

    def way(self, slot: Slot) -> list[Any]:
        """Return the equation of a slot, after the equations that contain it."""
        jaxpr, found = self.jaxpr, []
        for number in slot.address[::2]:
            if found:
                within = program_within(found[-1].params, len(found[-1].invars))
                assert within is not None  # since the interpreter has followed the program
                jaxpr, _ = within
            found.append(jaxpr.eqns[number])
        return found

    def shape(self, slot: Slot) -> tuple[int, ...]:
        """Return the shape of the array in a slot."""
        eqn = self.equation(slot)
        return (eqn.outvars if slot.side == "out" else eqn.invars)[slot.number].aval.shape

    @functools.cached_property
    def small(self) -> Program:
        """The program with the same equations for the smallest possible batch.

        Trials find the inputs that have the batch as their first axis.
        """
        sizes = {x.shape[0] for x in jax.tree.leaves(self.inputs) if x.ndim}
        found: list[Program] = [self]
        for size, batch in ((size, batch) for size in sizes for batch in (1, 2) if batch < size):

            def cut(x: Any, size: int = size, batch: int = batch) -> Any:
                own = x.ndim and x.shape[0] == size
                return jax.ShapeDtypeStruct((batch, *x.shape[1:]) if own else x.shape, x.dtype)

            try:
                inputs = jax.tree.map(cut, self.inputs)
                params = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), self.params)
                other = Program(self.function, params, inputs, self.pairs)
            except Exception:  # the user's function may raise any error for such inputs
                continue
            if _signature(other.jaxpr) == _signature(self.jaxpr):
                found.append(other)
        return min(found, key=lambda program: _elements(program.jaxpr))

    @functools.cached_property
    def interpreted(self) -> tuple[Interpreter, list[Value], Assembly]:
        """The findings, outputs and layers of the program, run on labels."""
        return self.interpret(())

    def interpret(
        self, carries: Sequence[tuple[int, int]]
    ) -> tuple[Interpreter, list[Value], Assembly]:
        """Run the program on labels, where some outputs come back as inputs.

        `carries` holds pairs of the numbers of an input and of the output that comes back as it.
        Return the findings, the outputs and the layers.
        """
        leaves = trees.named_leaves(self.params)
        shapes = {path: leaf.shape for path, leaf in leaves.items()}
        sizes = [int(np.prod(shape)) for shape in shapes.values()]
        numbers = np.arange(sum(sizes), dtype=np.int32 if sum(sizes) < 2**31 else np.int64)
        own = np.split(numbers, np.cumsum(sizes)[:-1])
        args: list[Value] = [
            Entries(n.reshape(shape)) for n, shape in zip(own, shapes.values(), strict=True)
        ]
        given = [
            Data(leaf.shape, given=True, inputs=frozenset([i]))
            for i, leaf in enumerate(jax.tree.leaves(self.inputs))
        ]
        seen = Interpreter(sum(sizes), self.pairs)
        consts = [Data(np.shape(c)) for c in self.consts]

        def body(carry: list[Value]) -> list[Value]:
            fed = list[Value](given)
            for (into, _), value in zip(carries, carry, strict=True):
                fed[into] = value
            outs = seen.run(self.jaxpr, consts, [*args, *fed])
            return [*(outs[out] for _, out in carries), *outs]

        start = [given[into] for into, _ in carries]
        kept = [
            self.jaxpr.invars[len(args) + into] is self.jaxpr.outvars[out] for into, out in carries
        ]
        outs = closed(seen, body, start, kept, "is carried from step to step")
        if outs is None:
            raise ValueError(
                "The labels of the carry change in every step; do without it: `carries=()`."
            )
        return seen, outs[len(carries) :], Assembly(seen, shapes)

    def returning(self, live: Sequence[bool]) -> Program:
        """Return the program that returns only the results that are `live`."""
        other = copy.copy(self)
        other.__dict__.pop("interpreted", None)
        other.jaxpr, _ = partial_eval.dce_jaxpr(self.jaxpr, list(live), instantiate=True)
        return other

    def labels_of(self, graph: UnitGraph) -> dict[str, np.ndarray]:
        """Return, for each layer of `graph`, the number of each label's unit, or NONE."""
        found = self.interpreted[2].indices()
        for layer in graph.layers:
            if layer.name not in found or int(found[layer.name].max()) + 1 != layer.size:
                raise ValueError(
                    f"The graph was made for another model: this function has no layer "
                    f"{layer.name!r} of {layer.size} units. Its layers: {', '.join(found)}."
                )
        return {name: found[name] for name in graph.names}


def _traced(function: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
    """Return the program of a function and the shapes of its result; errors name a remedy."""
    try:
        return jax.make_jaxpr(function, return_shape=True)(*args)
    except NameError as error:
        if "unbound axis name" not in str(error):
            raise
        raise ValueError(
            f"The function uses a named axis that `vmap` or `pmap` must bind ({error}). Bind it: "
            "trace `lambda p, x: jax.vmap(lambda x: apply_fn(p, x), axis_name=NAME)(x[None])`."
        ) from error
    except Exception as error:
        if type(error).__name__ == "TraceContextError":
            raise ValueError(
                "The function changes an NNX module that it did not create. Let it change a copy: "
                "`nnx.merge(graphdef, params, rest, copy=True)`."
            ) from error
        raise


def _abstract(x: Any) -> Any:
    """Return the type of an array, with the sharding that is part of it."""
    given = isinstance(x, jax.ShapeDtypeStruct)
    sharding = x.sharding if given else jax.typeof(jnp.asarray(x)).sharding
    if not given and not any(sharding.spec):
        sharding = None
    return jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x), sharding=sharding)


def _signature(jaxpr: Any) -> list[Any]:
    """Return the names of all operations, also of those within calls."""
    names: list[Any] = []
    for eqn in jaxpr.eqns:
        found = program_within(eqn.params, len(eqn.invars))
        names.append((eqn.primitive.name, _signature(found[0]) if found else None))
    return names


def _elements(jaxpr: Any) -> int:
    return sum(int(np.prod(var.aval.shape)) for eqn in jaxpr.eqns for var in eqn.outvars)
