"""`trace_units`: the unit graph of a JAX model, read from its program."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.optim import trees
from continual_learning.optim.interpret import Fact, Interpreter, Producer
from continual_learning.optim.labels import NONE, Activation, Data, Entries, first_along, varying
from continual_learning.optim.links import Kernel, Layer, Link
from continual_learning.optim.units import UnitGraph


def trace_units(apply_fn: Callable[..., Any], params: Any, *inputs: Any) -> UnitGraph:
    """The units of `apply_fn(params, *inputs)`, whatever its layers are called.

    The program is interpreted with labels in place of numbers: nothing is computed, and no
    convention is followed. What cannot be followed is listed in `graph.untraced` and left alone.

    Args:
      apply_fn: returns the network's outputs, in any structure. What it returns is output: do not
        return hidden features beside it.
      params: the parameter tree, or its shapes.
      *inputs: example inputs, or their shapes; their first axis is the batch. A batch of one is
        enough, and the fastest.
    """
    leaves = trees.named_leaves(params)
    shapes = jax.tree.map(_abstract, (params, *inputs))
    program = jax.make_jaxpr(apply_fn)(*shapes)
    args, start = [], 0
    total = sum(int(np.prod(jnp.shape(leaf))) for leaf in leaves.values())
    dtype = np.int32 if total < 2**31 else np.int64
    for leaf in leaves.values():
        size = int(np.prod(jnp.shape(leaf)))
        args.append(Entries(np.arange(start, start + size, dtype=dtype).reshape(jnp.shape(leaf))))
        start += size
    args += [Data(leaf.shape) for leaf in jax.tree.leaves(shapes[1:])]
    seen = Interpreter()
    consts = [Data(np.shape(c)) for c in program.consts]
    outs = seen.run(program.jaxpr, consts, args)
    outputs = frozenset[int]().union(*(v.all_sources() for v in outs if isinstance(v, Activation)))
    if not outputs:
        raise ValueError(
            "The output layer cannot be told: no kernel that was followed reaches what `apply_fn` "
            f"returns. Kernels: {', '.join(k for k, v in leaves.items() if jnp.ndim(v) > 1)}."
        )
    return _Assembly(seen, {p: jnp.shape(leaf) for p, leaf in leaves.items()}).graph(
        outputs, jax.tree.structure(params)
    )


def _abstract(x: Any) -> Any:
    return jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x))


class _Assembly:
    """From facts about entries and labels to layers and links.

    Labels that were added together are one unit; contractions that share a unit form one layer.
    """

    def __init__(self, seen: Interpreter, shapes: Mapping[str, tuple[int, ...]]):
        self.seen = seen
        self.shapes = shapes
        self.paths = list(shapes)
        sizes = [int(np.prod(shape)) for shape in shapes.values()]
        self.starts = np.cumsum([0, *sizes])
        self.unit = seen.units()
        self.group = self._groups()

    def graph(self, outputs: Iterable[int], treedef: Any) -> UnitGraph:
        """The graph, given the labels that reach the output."""
        reasons = self._reasons()
        final = {int(self.group[label]) for label in outputs}
        facts = [self._by_group(f) for f in (self.seen.reads, self.seen.shifts, self.seen.scales)]
        layers, untraced, named = [], dict[str, str](), collections.Counter[str]()
        for number in dict.fromkeys(self.group.tolist()):
            if number in final:
                continue
            producers = [p for p in self.seen.producers if self.group[p.first] == number]
            index, size = self._index(number)
            made = [
                Fact(p.entries, p.first + p.unit, np.full(p.entries.shape, NONE, np.int32))
                for p in producers
            ]
            path = self.paths[self._leaf(producers[0].entries[0])]
            reads, bias, scale = (self._links(f.get(number, ()), index) for f in facts)
            reason = reasons.get(number) or (None if reads else "is read by nothing")
            if reason is not None:
                untraced[path] = reason
                continue
            # Layers stacked in one parameter: the second is "path#2".
            named[path] += 1
            name = path if named[path] == 1 else f"{path}#{named[path]}"
            layers.append(Layer(name, size, self._links(made, index), reads, bias, scale))
        return UnitGraph(
            tuple(layers), self._kernels(), dict(self.shapes), treedef, tuple(untraced.items())
        )

    def _groups(self) -> np.ndarray:
        """The layer of every label: the number of its first contraction."""
        producers = self.seen.producers
        owner = np.repeat(np.arange(len(producers)), [p.size for p in producers])
        group = np.arange(len(producers))
        shared = np.unique(np.stack([owner, owner[self.unit]]), axis=1).T
        for a, b in shared[shared[:, 0] != shared[:, 1]]:
            group[group == max(group[a], group[b])] = min(group[a], group[b])
        return group[owner]

    def _index(self, number: int) -> tuple[np.ndarray, int]:
        """For every label the number of its unit in the layer, or NONE; and the layer's size."""
        own = np.flatnonzero(self.group == number)
        units, first, inverse = np.unique(self.unit[own], return_index=True, return_inverse=True)
        index = np.full(len(self.group), NONE, np.int32)
        index[own] = np.argsort(np.argsort(first))[inverse]
        return index, len(units)

    def _reasons(self) -> dict[int, str]:
        """Layers that cannot be told, with the reason."""
        reasons: dict[int, str] = {}
        for label, reason in self.seen.spoiled.items():
            reasons.setdefault(int(self.group[label]), reason)
        uses = np.zeros(self.starts[-1], np.int32)
        for producer in self.seen.producers:
            uses[producer.entries] += 1
        lost = [*self.seen.lost, (np.flatnonzero(uses > 1), "has entries that are used twice")]
        for entries, reason in lost:
            gone = np.zeros(self.starts[-1], bool)
            gone[entries] = True
            for p in self.seen.producers:
                if gone[p.entries].any():
                    reasons.setdefault(int(self.group[p.first]), reason)
            for fact in self.seen.reads:
                for label in np.unique(fact.labels[gone[fact.entries] & (fact.labels >= 0)]):
                    reasons.setdefault(int(self.group[label]), reason)
        for p in self.seen.producers:
            if len(np.unique(self.unit[p.first : p.first + p.size])) < p.size:
                reason = "has several outputs of one kernel in one unit"
                reasons.setdefault(int(self.group[p.first]), reason)
        return reasons

    def _by_group(self, facts: Iterable[Fact]) -> dict[int, list[Fact]]:
        found: dict[int, list[Fact]] = {}
        for fact in facts:
            labels = fact.labels[fact.labels >= 0]
            for number in np.flatnonzero(np.bincount(self.group[labels])):
                found.setdefault(int(number), []).append(fact)
        return found

    def _leaf(self, entry: Any) -> int:
        return int(np.searchsorted(self.starts, entry, side="right")) - 1

    def _links(self, facts: Iterable[Fact], index: np.ndarray) -> tuple[Link, ...]:
        """Links of the units in `index`. A parameter whose entries several units share has none."""
        found: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        shared = set()
        for fact in facts:
            units = np.where(fact.labels >= 0, index[fact.labels], NONE)
            entries, place = fact.entries, fact.position
            if (units < 0).any():
                entries, units, place = (a[units >= 0] for a in (entries, units, place))
            first, last = self._leaf(entries.min()), self._leaf(entries.max())
            for leaf in range(first, last + 1):
                here = slice(None)
                if first != last:
                    here = (entries >= self.starts[leaf]) & (entries < self.starts[leaf + 1])
                at, own = entries[here] - self.starts[leaf], units[here]
                blank = np.full(self.starts[leaf + 1] - self.starts[leaf], NONE, np.int32)
                unit_of, place_of = found.setdefault(leaf, (blank, blank.copy()))
                before = unit_of[at]
                unit_of[at], place_of[at] = own, place[here]
                if ((before >= 0) & (before != own)).any() or (unit_of[at] != own).any():
                    shared.add(leaf)
        return tuple(
            _link(self.paths[leaf], self.shapes[self.paths[leaf]], *arrays)
            for leaf, arrays in found.items()
            if leaf not in shared and (arrays[0] >= 0).any()
        )

    def _kernels(self) -> tuple[Kernel, ...]:
        """How the axes of every kernel are used, in program order."""
        by_leaf: dict[int, list[Producer]] = {}
        for p in self.seen.producers:
            for leaf in range(self._leaf(p.entries.min()), self._leaf(p.entries.max()) + 1):
                by_leaf.setdefault(leaf, []).append(p)
        return tuple(self._kernel(leaf, producers) for leaf, producers in by_leaf.items())

    def _kernel(self, leaf: int, producers: list[Producer]) -> Kernel:
        path, start, stop = self.paths[leaf], self.starts[leaf], self.starts[leaf + 1]
        shape = self.shapes[path]
        roles = np.full((4, stop - start), NONE, np.int32)
        for p in producers:
            here = slice(None)
            if p.entries.min() < start or p.entries.max() >= stop:
                here = (p.entries >= start) & (p.entries < stop)
            at = p.entries[here] - start
            for role, own in zip(roles, (p.copy, p.output, p.inputs, p.spatial), strict=True):
                role[at] = own[here]
        copies, outputs, inputs, spatial = (varying(role.reshape(shape)) for role in roles)
        rest = [a for a in range(len(shape)) if a not in (*copies, *outputs, *inputs, *spatial)]
        ones = [a for a in rest if shape[a] == 1]
        if not inputs and ones:  # which of several axes of size 1 it is makes no difference
            inputs = [ones.pop(0)]
        if not outputs and ones:
            outputs = [ones.pop()]
        copies += [a for a in rest if a not in (*inputs, *outputs)]  # layers stacked in one leaf
        return Kernel(
            path,
            tuple(inputs),
            tuple(outputs),
            tuple(spatial),
            tuple(copies),
            self._bias_of(producers),
        )

    def _bias_of(self, producers: list[Producer]) -> str | None:
        """The parameter that is added to all outputs of the kernel, and to nothing else."""
        found = set()
        for p in producers:
            own = [
                fact
                for fact in self.seen.shifts
                if fact.linear
                and len(fact.labels) == p.size
                and fact.labels.min() >= p.first
                and fact.labels.max() < p.first + p.size
            ]
            found |= {self._leaf(fact.entries[0]) for fact in own} or {None}
        if len(found) != 1 or None in found:
            return None
        (leaf,) = found
        whole = self.starts[leaf + 1] - self.starts[leaf] == sum(p.size for p in producers)
        return self.paths[leaf] if whole else None


def _link(path: str, shape: tuple[int, ...], units: np.ndarray, places: np.ndarray) -> Link:
    """The axes along which units (and places) differ, and what they are there."""
    units, places = units.reshape(shape), places.reshape(shape)
    own = places[units >= 0]
    placed = bool((own >= 0).all()) and len(np.unique(own)) > 1
    axes = sorted({*varying(units), *(varying(places) if placed else ())})
    axes = axes or list(range(len(shape)))[-1:]  # one unit that owns everything
    others = [a for a in range(len(shape)) if a not in axes]

    def cut(array: np.ndarray) -> np.ndarray:
        return first_along(array, others).reshape([shape[a] for a in axes])

    return Link(path, tuple(axes), cut(units), cut(places) if placed else None)
