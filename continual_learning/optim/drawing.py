"""Pictures of a unit graph: a table, Graphviz, Mermaid."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from continual_learning.optim.links import Link

if TYPE_CHECKING:
    from continual_learning.optim.units import UnitGraph


def table(graph: UnitGraph) -> str:
    """Return a table with a row per layer and the parameters that hold its entries."""

    def params(links: tuple[Link, ...]) -> str:
        return ", ".join(dict.fromkeys(link.param for link in links)) or "-"

    rows = [("layer", "units", "incoming", "bias and norm", "outgoing")]
    rows += [
        (
            layer.name,
            str(layer.size),
            params(layer.incoming),
            params(layer.bias + layer.scale),
            params(layer.outgoing),
        )
        for layer in graph.layers
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in rows]
    lines.insert(1, "  ".join("-" * w for w in widths))
    lines.append(f"hidden units: {int(graph.sizes.sum())}")
    if graph.untraced:
        wide = max(len(name) for name, _ in graph.untraced)
        lines += ["", "untraced:"]
        lines += [f"  {name.ljust(wide)}  {reason}" for name, reason in graph.untraced]
    return "\n".join(lines)


class Picture(NamedTuple):
    """The nodes and edges of a picture.

    Attributes:
      nodes: {key: text}: the input, hidden layers, output layers and untraced parameters.
      edges: (from, to, kernel).
      loose: keys of the nodes that are left alone.
    """

    nodes: dict[str, str]
    edges: list[tuple[str, str, str]]
    loose: list[str]


def picture(graph: UnitGraph) -> Picture:
    """Return the layers as nodes, and the kernels between them as edges."""
    nodes = {"input": "input"}
    nodes |= {x.name: f"{x.name}\n{x.size} units" for x in graph.layers}
    loose = {f"untraced:{path}": f"{path}\n{reason}" for path, reason in graph.untraced}
    edges: list[tuple[str, str, str]] = []
    for kernel in graph.kernels:
        path, shape = kernel.param, graph.shapes[kernel.param]
        if f"untraced:{path}" in loose:
            continue
        made = {x.name: _entries(x.incoming, path, shape) for x in graph.layers}
        read = {x.name: _entries(x.outgoing, path, shape) for x in graph.layers}
        free = ~np.logical_or.reduce([np.zeros(shape, bool), *made.values()])
        if free.any():
            made[f"output:{path}"] = free
            nodes[f"output:{path}"] = f"{path}\noutput"
        read["input"] = ~np.logical_or.reduce([np.zeros(shape, bool), *read.values()])
        edges += [(a, b, path) for b in made for a in read if (made[b] & read[a]).any()]
    return Picture(nodes | loose, edges, list(loose))


def _entries(links: Iterable[Link], path: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return which entries of a parameter the links hold, bool like the parameter."""
    found = np.zeros(shape, bool)
    for link in links:
        if link.param == path:
            others = tuple(a for a in range(len(shape)) if a not in link.axes)
            found |= np.expand_dims(link.index >= 0, others)
    return found


def to_dot(graph: UnitGraph) -> str:
    """Return the graph in the language of Graphviz."""

    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'

    drawn = picture(graph)
    lines = ["digraph units {", "  rankdir=LR;", "  node [shape=box];"]
    for key, text in drawn.nodes.items():
        style = ", style=dashed" if key in drawn.loose else ""
        lines.append(f"  {quoted(key)} [label={quoted(text)}{style}];")
    for a, b, kernel in drawn.edges:
        lines.append(f"  {quoted(a)} -> {quoted(b)} [label={quoted(kernel)}];")
    return "\n".join([*lines, "}"])


def to_mermaid(graph: UnitGraph) -> str:
    """Return the graph in the language of Mermaid, which Markdown pages can show."""

    def quoted(text: str) -> str:
        return '"' + text.replace('"', "#quot;").replace("\n", "<br/>") + '"'

    drawn = picture(graph)
    number = {key: f"n{i}" for i, key in enumerate(drawn.nodes)}
    lines = ["flowchart LR"]
    lines += [f"  {number[key]}[{quoted(text)}]" for key, text in drawn.nodes.items()]
    lines += [f"  {number[a]} -->|{quoted(k)}| {number[b]}" for a, b, k in drawn.edges]
    lines += [f"  style {number[key]} stroke-dasharray: 5 5" for key in drawn.loose]
    return "\n".join(lines)
