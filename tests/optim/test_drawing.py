"""Pictures of a graph show what it holds."""

import jax.numpy as jnp
import pytest

from continual_learning.optim import trace_units
from continual_learning.optim.drawing import picture


@pytest.fixture(scope="module")
def graph():
    params = {
        "embed": jnp.ones((3, 4)),
        "up": jnp.ones((4, 5)),
        "down": jnp.ones((5, 4)),
        "gate": jnp.ones((4, 2)),
        "gated": jnp.ones((4, 2)),
        "mix": jnp.ones((2, 2)),
        "out": jnp.ones((9, 2)),
    }

    def apply(p, x):
        h = x @ p["embed"]
        h = h + jnp.tanh(h @ p["up"]) @ p["down"]
        g = jnp.sort((h @ p["gate"]) + (h @ p["gated"])) @ p["mix"]
        return jnp.concatenate([h, x, g], -1) @ p["out"]

    return trace_units(apply, params, jnp.ones((1, 3)))


def test_kernels_are_edges_from_what_they_read_to_what_they_make(graph):
    drawn = picture(graph)
    assert {(a, b) for a, b, _ in drawn.edges} == {
        ("input", "embed"),
        ("embed", "up"),
        ("up", "embed"),
        ("input", "mix"),
        ("embed", "output:out"),
        ("mix", "output:out"),
        ("input", "output:out"),
    }
    assert ("up", "embed", "down") in drawn.edges
    assert drawn.nodes["up"] == "up\n5 units"
    assert drawn.loose == ["untraced:gate", "untraced:gated"]


def test_graphviz_and_mermaid(graph):
    dot = graph.to_dot()
    assert dot.startswith("digraph units {") and dot.endswith("}")
    assert '"embed" -> "up" [label="up"];' in dot
    assert '"up" [label="up\\n5 units"];' in dot
    assert "style=dashed" in dot
    mermaid = graph.to_mermaid()
    assert mermaid.splitlines()[0] == "flowchart LR"
    assert 'n1["embed<br/>4 units"]' in mermaid
    assert 'n1 -->|"up"| n2' in mermaid


def test_names_are_quoted():
    params = {'a "b"\\': jnp.ones((3, 4)), "c": jnp.ones((4, 2))}
    graph = trace_units(lambda p, x: jnp.tanh(x @ p['a "b"\\']) @ p["c"], params, jnp.ones((1, 3)))
    assert r'"a \"b\"\\"' in graph.to_dot()
    assert "a #quot;b#quot;" in graph.to_mermaid()


def test_layers_stacked_in_one_parameter():
    params = {"w": jnp.ones((3, 4, 4)), "out": jnp.ones((4, 2))}

    def apply(p, x):
        for i in range(3):
            x = jnp.tanh(x @ p["w"][i])
        return x @ p["out"]

    edges = picture(trace_units(apply, params, jnp.ones((1, 4)))).edges
    assert [(a, b) for a, b, _ in edges] == [
        ("input", "w"),
        ("w", "w#2"),
        ("w#2", "w#3"),
        ("w#3", "output:out"),
    ]
