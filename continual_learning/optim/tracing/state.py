"""The distinction of a function's output from its state, which comes back as an input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

import jax
import numpy as np

from continual_learning.optim.tracing.assemble import Assembly
from continual_learning.optim.tracing.facts import Findings
from continual_learning.optim.tracing.labels import Activation, Value


class State(NamedTuple):
    """A part of a function's result that is not output.

    Attributes:
      leaves: the numbers of its arrays among those of the result.
      inputs: the numbers of the input arrays as which it comes back, among those of all inputs;
        empty if it does not come back as an input of its own.
      named: whether the user named it.
    """

    leaves: tuple[int, ...]
    inputs: tuple[int, ...] = ()
    named: bool = False


def states(
    out: Any, params: Any, inputs: Sequence[Any], carries: Sequence[int] | None
) -> list[State]:
    """Return the parts of `out` that may be state, recognized by their structure.

    Args:
      out: the shapes that the function returns.
      params: the parameters.
      inputs: the shapes of the inputs.
      carries: the numbers of the inputs that are carried; None if they are unknown.
    """
    parts = _parts(out)
    wholes = [*parts, (tuple(range(len(jax.tree.leaves(out)))), out)]
    firsts = np.cumsum([0, *(len(jax.tree.leaves(x)) for x in inputs)])
    found, taken = list[State](), set[int]()
    for number in carries or ():
        if not 0 <= number < len(inputs):
            raise ValueError(f"carries: there is no input {number} of {len(inputs)}.")
        fits = [leaves for leaves, part in wholes if _same(part, inputs[number])]
        if not fits:
            raise ValueError(
                f"carries: `apply_fn` returns nothing of the structure of input {number}. Let it "
                "return the new carry beside its output."
            )
        own = range(firsts[number], firsts[number + 1])
        found.append(State(fits[0], tuple(own), named=True))
        taken |= set(fits[0])
    for leaves, part in parts:
        if taken & set(leaves):
            continue
        alike = [i for i, given in enumerate(inputs) if _same(part, given)]
        if alike and len(inputs) > 1:
            several = sum(_same(other, part) for _, other in parts) > 1 or len(alike) > 1
            closes = carries is None and not several
            own = range(firsts[alike[0]], firsts[alike[0] + 1]) if closes else ()
            found.append(State(leaves, tuple(own)))
        elif _is_collection(part, params):
            found.append(State(leaves))
    return found


def _parts(out: Any) -> list[tuple[tuple[int, ...], Any]]:
    """Return the children of `out` with the numbers of their leaves."""
    children = jax.tree.leaves(out, is_leaf=lambda x: x is not out)
    ends = np.cumsum([0, *(len(jax.tree.leaves(child)) for child in children)])
    return [
        (tuple(range(a, b)), child) for a, b, child in zip(ends, ends[1:], children, strict=False)
    ]


def _same(part: Any, given: Any) -> bool:
    def key(tree: Any) -> Any:
        leaves, treedef = jax.tree.flatten(tree)
        return treedef, [(x.shape, x.dtype) for x in leaves]

    return bool(jax.tree.leaves(given)) and key(part) == key(given)


def _is_collection(part: Any, params: Any) -> bool:
    """Return whether it is {collection: {module: …}} of Flax, with the parameters' modules."""

    def paths(tree: Any) -> list[list[str]]:
        flat, _ = jax.tree_util.tree_flatten_with_path(tree)
        return [
            jax.tree_util.keystr(path, simple=True, separator="/").split("/") for path, _ in flat
        ]

    if not isinstance(part, Mapping) or not part:
        return False
    modules = [path[:-1] for path in paths(params)]
    known = {tuple(m[a:b]) for m in modules for a in (0, 1) for b in range(len(m) + 1) if b > a}
    return all(tuple(path[1:-1]) in known for path in paths(part))


class Returned:
    """The layers in the result of a function."""

    def __init__(self, seen: Findings, outs: Sequence[Value], assembly: Assembly):
        group = assembly.group
        self.direct = [set[int]() for _ in outs]
        self.mixed = [set[int]() for _ in outs]
        for own, mixed, value in zip(self.direct, self.mixed, outs, strict=True):
            if isinstance(value, Activation):
                own |= set(group[list(value.own_labels())].tolist())
                mixed |= set(group[list(value.sources)].tolist()) - assembly.reasons.keys()
        reads = [np.unique(group[fact.labels[fact.labels >= 0]]) for fact in seen.reads]
        self.hidden = set(np.concatenate([np.zeros(0, int), *reads]).tolist())
        self.hidden -= assembly.reasons.keys()

    def layers(self, leaf: int) -> Set[int]:
        """Return the layers that are in a leaf."""
        return self.direct[leaf] | self.mixed[leaf]

    def is_state(self, state: State) -> bool:
        """Return whether it is state, which holds hidden units or no units; others are output."""
        layers = [self.layers(leaf) for leaf in state.leaves]
        return state.named or not any(layers) or any(own & self.hidden for own in layers)

    def beside(self) -> dict[int, int]:
        """Return {leaf: layer} for leaves that hold a hidden layer which others do not hold."""
        every = [self.layers(leaf) for leaf in range(len(self.direct))]
        shared = set[int].intersection(*([set(own) for own in every if own] or [set()]))
        found = {leaf: sorted(own & self.hidden - shared) for leaf, own in enumerate(every)}
        return {leaf: layers[0] for leaf, layers in found.items() if layers}


def unnamed_carry(assembly: Assembly, inputs: Sequence[Any], carried: Set[int]) -> str | None:
    """Return the layer for which an input looks like its carry, for an error; None if none does.

    Such an input is as wide as the layer, which reads it by a kernel of its own beside another.

    Args:
      assembly: the layers.
      inputs: the shapes of the inputs.
      carried: the numbers of the input arrays that are carried.
    """
    leaves = jax.tree.leaves(inputs)
    if len(leaves) == 1:
        return None
    for name, number in assembly.names.items():
        producers = [p for p in assembly.seen.producers if assembly.group[p.first] == number]
        size = len(np.unique(assembly.unit[assembly.group == number]))
        for p in producers:
            if len(p.given) != 1 or len(producers) == 1:
                continue
            (leaf,) = p.given
            width = leaves[leaf].shape[-1:]
            others = [q for q in producers if leaf not in q.given]
            if leaf not in carried and width == (size,) == (int(p.inputs.max()) + 1,) and others:
                return f"layer {name!r}"
    return None
