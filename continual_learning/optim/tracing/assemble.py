"""The assembly of a unit graph's layers and links from facts about entries and labels."""

from __future__ import annotations

import collections
import functools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from continual_learning.optim.links import Kernel, Layer, Link
from continual_learning.optim.tracing.facts import PAIR, TIED, Fact, Findings, Producer
from continual_learning.optim.tracing.labels import NONE, first_along, varying
from continual_learning.optim.units import UnitGraph


class Assembly:
    """The layers and links that follow from facts about entries and labels.

    Labels that were added together are one unit; contractions that share a unit form one layer.
    """

    def __init__(self, seen: Findings, shapes: Mapping[str, tuple[int, ...]]):
        self.seen = seen
        self.shapes = shapes
        self.paths = list(shapes)
        sizes = [int(np.prod(shape)) for shape in shapes.values()]
        self.starts = np.cumsum([0, *sizes])
        self.unit = seen.units()
        self.group = self._groups()
        self.shared = self._shared()
        self.query = np.zeros(len(self.unit), bool)
        self.query[list(seen.queries)] = True
        paired = [self.unit[label] for label, reason in seen.spoiled.items() if reason == PAIR]
        self.paired = np.isin(self.unit, paired)  # queries and keys that are left alone

    def graph(self, outputs: Iterable[int], mixed: Iterable[int], treedef: Any) -> UnitGraph:
        """Return the unit graph.

        Args:
          outputs: the labels that are output.
          mixed: the labels on which the output depends otherwise.
          treedef: the structure of the parameter tree.
        """
        reasons = self.reasons
        final = {int(self.group[label]) for label in outputs}
        # Layers that reach the output only through an operation that is not followed are listed.
        final |= {int(self.group[label]) for label in mixed} - reasons.keys()
        facts = [self._by_group(f) for f in self._facts()]
        layers, untraced, output = [], dict[str, str](), set[str]()
        left = dict[int, str]()  # layers without units, with the reason
        for name, number in self.names.items():
            producers = [p for p in self.seen.producers if self.group[p.first] == number]
            if number in final:
                output |= {
                    self.paths[leaf] for p in producers for leaf in self._leaves_of(p.entries)
                }
                continue
            index, size = self._index(number)
            reads, bias, scale = (self._links(f.get(number, ()), index) for f in facts)
            bias, scale = (self._own(links) for links in (bias, scale))
            reason = reasons.get(number) or (None if reads else "is read by nothing")
            if reason is not None:
                for p in producers:
                    why = self.seen.why_lost(p.entries) or reason
                    untraced |= {self.paths[leaf]: why for leaf in self._leaves_of(p.entries)}
                left[number] = f"belongs to {name}, which {reason}"
                continue
            made = [fact for p in producers if (fact := self._of(p, ~self.query))]
            beside = [fact for p in producers if (fact := self._of(p, self.paired))]
            untraced |= {
                self.paths[leaf]: PAIR for fact in beside for leaf in self._leaves_of(fact.entries)
            }
            layers.append(Layer(name, size, self._links(made, index), reads, bias, scale))
        linked = {link.param for layer in layers for link in layer.links()}
        rest = self._left_over({*linked, *untraced, *output}, final, left)
        output |= {path for path, reason in rest.items() if reason is None}
        untraced |= {path: reason for path, reason in rest.items() if reason is not None}
        return UnitGraph(
            tuple(layers),
            self._kernels(),
            dict(self.shapes),
            treedef,
            tuple(untraced.items()),
            tuple(path for path in self.paths if path in output),
            self.seen.pairs,
        )

    def _facts(self) -> tuple[list[Fact], list[Fact], list[Fact]]:
        """Return the reads, shifts and scales of units; queries read the keys of their pairs."""
        if not self.query.any():
            return self.seen.reads, self.seen.shifts, self.seen.scales
        reads, shifts = list(self.seen.reads), []
        reads += [fact for p in self.seen.producers if (fact := self._of(p, self.query))]
        for fact in self.seen.shifts:
            asks = self.query[fact.labels]
            for facts, own in ((reads, asks), (shifts, ~asks)):
                if own.any():
                    parts = (fact.entries[own], fact.labels[own], fact.position[own])
                    facts.append(Fact(*parts, fact.linear))
        return reads, shifts, self.seen.scales

    def _of(self, p: Producer, chosen: np.ndarray) -> Fact | None:
        """Return the entries that make the units of the labels `chosen`."""
        own = chosen[p.first + p.unit]
        if not own.any():
            return None
        entries, labels = p.entries[own], (p.first + p.unit)[own]
        return Fact(entries, labels, np.full(entries.shape, NONE, np.int32))

    def _left_over(
        self, named: set[str], final: set[int], left: Mapping[int, str]
    ) -> dict[str, str | None]:
        """Return parameters beyond `named` with the reason, or None for those of the output layer.

        Args:
          named: parameters that are already listed.
          final: layers that are output.
          left: layers without units, with the reason.
        """
        groups: dict[int, set[int]] = {}
        for p in self.seen.producers:
            for leaf in self._leaves_of(p.entries):
                groups.setdefault(leaf, set()).add(int(self.group[p.first]))
        for fact in self.seen.shifts + self.seen.scales:
            for leaf in self._leaves_of(fact.entries):
                groups.setdefault(leaf, set()).update(self.group[fact.labels].tolist())
        reasons: dict[str, str | None] = {}
        for leaf, path in enumerate(self.paths):
            owners = groups.get(leaf, set())
            if path in named:
                continue
            if owners and owners <= final | left.keys():
                reasons[path] = next((left[number] for number in sorted(owners - final)), None)
                continue
            entries = np.arange(self.starts[leaf], self.starts[leaf + 1])
            reasons[path] = (
                self.shared.get(leaf)
                or (self.seen.why_lost(entries) if entries.size else None)
                or "is not used"
            )
        return reasons

    def _groups(self) -> np.ndarray:
        """Return the layer of every label, as the number of its first contraction."""
        producers = self.seen.producers
        owner = np.full(len(self.unit), NONE)  # the carry of a loop has none of its own
        for number, p in enumerate(producers):
            owner[p.first : p.first + p.size] = number
        first = np.full(len(self.unit), len(producers))  # of every unit
        np.minimum.at(first, self.unit[owner >= 0], owner[owner >= 0])
        group = np.arange(len(producers) + 1)
        shared = np.unique(np.stack([owner, first[self.unit]])[:, owner >= 0], axis=1).T
        for a, b in shared[shared[:, 0] != shared[:, 1]]:
            group[group == max(group[a], group[b])] = min(group[a], group[b])
        return group[first[self.unit]]

    @functools.cached_property
    def names(self) -> dict[str, int]:
        """All layers by name, in program order: the path of the first contraction's kernel.

        Layers stacked in one parameter are "path", "path#2", …
        """
        names, used = dict[str, int](), collections.Counter[str]()
        for p in self.seen.producers:
            if self.query[p.first : p.first + p.size].all():
                continue
            if (number := int(self.group[p.first])) not in names.values():
                path = self.paths[self._leaf(p.entries[0])]
                used[path] += 1
                names[path if used[path] == 1 else f"{path}#{used[path]}"] = number
        return names

    def indices(self) -> dict[str, np.ndarray]:
        """Return, for all layers and the output's, the unit of every label in it, or NONE."""
        return {name: self._index(number)[0] for name, number in self.names.items()}

    def _index(self, number: int) -> tuple[np.ndarray, int]:
        """Return the number of every label's unit in the layer, or NONE, and the layer's size."""
        own = self.group == number
        some = own & ~self.paired
        own = np.flatnonzero(some if some.any() else own)
        units, first, inverse = np.unique(self.unit[own], return_index=True, return_inverse=True)
        index = np.full(len(self.group), NONE, np.int32)
        index[own] = np.argsort(np.argsort(first))[inverse]
        return index, len(units)

    def _shared(self) -> dict[int, str]:
        """Return biases and scales that do not belong to one unit alone, with the reason."""
        seen, count = self.seen, 2 * len(self.unit)
        uses = [np.zeros(0, np.int64)]  # entry, unit, and whether it is a scale there
        for fact, scales in [(f, 0) for f in seen.shifts] + [(f, 1) for f in seen.scales]:
            seen.lose(fact.entries[seen.produces(fact.entries)], TIED)
            use = 2 * self.unit[fact.labels] + scales
            uses.append(fact.entries.astype(np.int64) * count + use)
        entries, use = np.divmod(np.unique(np.concatenate(uses)), max(count, 1))
        again = entries[1:] == entries[:-1]
        several = again & (use[1:] // 2 != use[:-1] // 2)
        gone = entries[seen.lost(entries)]
        reasons = {self._leaf(entry): str(seen.why_lost(entry)) for entry in gone[:, None]}
        reasons |= dict.fromkeys(self._leaves_of(entries[1:][again]), TIED)
        shared = dict.fromkeys(self._leaves_of(entries[1:][several]), "is shared by several units")
        return reasons | shared

    @functools.cached_property
    def reasons(self) -> dict[int, str]:
        """Layers whose units are ambiguous, with the reason."""
        reasons: dict[int, str] = {}
        gated = {int(self.unit[label]) for label in self.seen.gated}
        spoiled = dict[int, str]()
        for label, reason in self.seen.spoiled.items():
            number = int(self.group[label])
            if reason != PAIR or self.paired[self.group == number].all():
                spoiled.setdefault(number, reason)
        for p in self.seen.producers:
            number, reason = int(self.group[p.first]), self.seen.why_lost(p.entries)
            own = ~(self.query | self.paired)[p.first : p.first + p.size]
            units, outputs = np.unique(
                self.unit[p.first : p.first + p.size][own], return_counts=True
            )
            # A kernel may make the two sides of a gate, or all gates of a cell, beside others.
            several = outputs > 1
            alike = len(np.unique(outputs[several])) == 1 and len(units) > 1
            sides = alike and gated.issuperset(units[several])
            if len(units) < own.sum() and not sides:
                reason = reason or spoiled.get(number)
                reason = reason or "has several outputs of one kernel in one unit"
            if reason is not None:
                reasons.setdefault(number, reason)
        for fact in self.seen.reads:
            if self.seen.why_lost(fact.entries) is None:
                continue
            gone = self.seen.lost(fact.entries) & (fact.labels >= 0)
            for label, at in zip(*np.unique(fact.labels[gone], return_index=True), strict=True):
                entry = fact.entries[gone][at : at + 1]
                why = f"is read by {self.paths[self._leaf(entry[0])]}, which "
                reasons.setdefault(int(self.group[label]), f"{why}{self.seen.why_lost(entry)}")
        return spoiled | reasons

    def _by_group(self, facts: Iterable[Fact]) -> dict[int, list[Fact]]:
        found: dict[int, list[Fact]] = {}
        for fact in facts:
            labels = fact.labels[fact.labels >= 0]
            for number in np.flatnonzero(np.bincount(self.group[labels])):
                found.setdefault(int(number), []).append(fact)
        return found

    def _leaf(self, entry: Any) -> int:
        return int(self._leaves(entry).item())

    def _leaves_of(self, entries: np.ndarray) -> list[int]:
        """Return the numbers of the parameters that hold `entries`."""
        if entries.size and self._leaf(entries.min()) == self._leaf(entries.max()):
            return [self._leaf(entries[0])]
        return np.unique(self._leaves(entries)).tolist()

    def _leaves(self, entries: Any) -> np.ndarray:
        """Return the number of the parameter that holds each entry."""
        return np.searchsorted(self.starts, entries, side="right") - 1

    def _links(self, facts: Iterable[Fact], index: np.ndarray) -> tuple[Link, ...]:
        """Return the links of the units in `index`."""
        found: dict[int, tuple[np.ndarray, np.ndarray]] = {}
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
                unit_of[at], place_of[at] = own, place[here]
        return tuple(
            _link(self.paths[leaf], self.shapes[self.paths[leaf]], *arrays)
            for leaf, arrays in found.items()
            if (arrays[0] >= 0).any()
        )

    def _own(self, links: Iterable[Link]) -> tuple[Link, ...]:
        """Return the links whose parameter no other unit shares."""
        shared = {self.paths[leaf] for leaf in self.shared}
        return tuple(link for link in links if link.param not in shared)

    def _kernels(self) -> tuple[Kernel, ...]:
        """Return the use of every kernel's axes, in program order."""
        by_leaf: dict[int, list[Producer]] = {}
        for p in self.seen.producers:
            for leaf in self._leaves_of(p.entries):
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
        if not inputs and ones:  # any axis of size 1 will do
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
        """Return the parameter that is added to the outputs of the kernel, all and no others."""
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
    """Return the link of a parameter, along the axes in which its units (and places) differ."""
    units, places = units.reshape(shape), places.reshape(shape)
    own = places[units >= 0]
    placed = bool((own >= 0).all()) and len(np.unique(own)) > 1
    axes = sorted({*varying(units), *(varying(places) if placed else ())})
    axes = axes or list(range(len(shape)))[-1:]  # one unit that owns everything
    others = [a for a in range(len(shape)) if a not in axes]

    def cut(array: np.ndarray) -> np.ndarray:
        return first_along(array, others).reshape([shape[a] for a in axes])

    return Link(path, tuple(axes), cut(units), cut(places) if placed else None)
