"""What cannot be told as units is listed with its reason, and what is beside it stays right."""

import jax
import jax.numpy as jnp
import pytest

from continual_learning.optim import trace_units
from tests.optim.unit_checks import assert_complete, check_units

X = jax.random.normal(jax.random.key(0), (2, 3))


def weights(**shapes):
    return {name: jnp.ones(shape) for name, shape in shapes.items()}


def normed(p, v, g):
    return p[v] / jnp.linalg.norm(p[v], axis=0, keepdims=True) * p[g][None]


# id: (program, shapes, names of the layers, {untraced: a part of the reason})
CASES = {
    "squeeze and excite": (
        lambda p, x: ((h := jnp.tanh(x @ p["a"])) * jax.nn.sigmoid(h @ p["s"])) @ p["c"],
        {"a": (3, 4), "s": (4, 1), "c": (4, 2)}, [],
        {"a": "meets another unit in 'mul'", "s": "meets another unit in 'mul'"},
    ),
    "tied": (
        lambda p, x: jnp.tanh(jnp.tanh(x @ p["a"]) @ p["a"]) @ p["c"],
        {"a": (3, 3), "c": (3, 2)}, [], {"a": "used twice"},
    ),
    "twice": (
        lambda p, x: jnp.roll(x @ p["a"], 1, -1) @ p["c"] + (x @ p["a"]) @ p["c"],
        {"a": (3, 4), "c": (4, 2)}, [], {"a": "used twice"},
    ),
    "shift": (
        lambda p, x: (jnp.roll(h := x @ p["a"], 1, -1) + h) @ p["c"],
        {"a": (3, 4), "c": (4, 2)}, [], {"a": "several outputs of one kernel"},
    ),
    "long scan": (
        lambda p, x: jax.lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, p["w"])[0] @ p["c"],
        {"w": (65, 3, 3), "c": (3, 2)}, [], {"w": "is used by 'scan' of 65 iterations"},
    ),
    "loop over an index": (
        lambda p, x: jax.lax.fori_loop(0, 2, lambda i, h: jnp.tanh(h @ p["w"][i]), x) @ p["c"],
        {"w": (2, 3, 3), "c": (3, 2)}, [], {"w": "is used by 'dynamic_slice'"},
    ),
    "while": (
        lambda p, x: jnp.tanh(jax.lax.while_loop(
            lambda h: (h < 1).all(), lambda h: h @ p["b"] + 1, x @ p["a"]) @ p["c"]) @ p["d"],
        {"a": (3, 4), "b": (4, 4), "c": (4, 5), "d": (5, 2)}, ["c"],
        {"a": "passes through 'while'", "b": "is used by 'while'"},
    ),
    "cond": (
        lambda p, x: jnp.tanh(jax.lax.cond(
            x[0, 0] > 0, lambda h: h @ p["b"], lambda h: -h, x @ p["a"]) @ p["c"]) @ p["d"],
        {"a": (3, 4), "b": (4, 4), "c": (4, 5), "d": (5, 2)}, ["c"],
        {"a": "passes through 'cond'", "b": "is used by 'cond'"},
    ),
    "cond at the end": (
        lambda p, x: jax.lax.cond(
            x[0, 0] > 0, lambda h: h @ p["b"], lambda h: h @ p["c"], jnp.tanh(x @ p["a"])),
        {"a": (3, 4), "b": (4, 2), "c": (4, 2)}, [],
        {"a": "passes through 'cond'", "b": "is used by 'cond'", "c": "is used by 'cond'"},
    ),
    "sort": (
        lambda p, x: jnp.sort(x @ p["a"]) @ p["c"],
        {"a": (3, 4), "c": (4, 2)}, [], {"a": "passes through 'sort'"},
    ),
    "top k": (
        lambda p, x: jax.lax.top_k(x @ p["a"], 2)[0] @ p["c"],
        {"a": (3, 4), "c": (2, 2)}, [], {"a": "passes through 'top_k'"},
    ),
    "gather": (
        lambda p, x: (x @ p["a"])[:, jnp.array([2, 0, 1])] @ p["c"],
        {"a": (3, 4), "c": (3, 2)}, [], {"a": "passes through 'gather'"},
    ),
    "dynamic slice": (
        lambda p, x: jax.lax.dynamic_slice(x @ p["a"], (0, x.argmax()), (2, 3)) @ p["c"],
        {"a": (3, 4), "c": (3, 2)}, [], {"a": "passes through 'dynamic_slice'"},
    ),
    "mean": (
        lambda p, x: (x @ p["a"]).mean(-1, keepdims=True) @ p["c"],
        {"a": (3, 4), "c": (1, 2)}, [], {"a": "read together with other units"},
    ),
    "product": (
        lambda p, x: jnp.tanh((x @ p["a"]) @ (x @ p["b"]).T) @ p["c"],
        {"a": (3, 4), "b": (3, 4), "c": (2, 2)}, [],
        {"a": "passes through 'dot_general'", "b": "passes through 'dot_general'"},
    ),
    "divided by another layer": (
        lambda p, x: (x @ p["b"] / (2 + (h := jnp.tanh(x @ p["a"])).mean(-1, keepdims=True)))
        @ p["c"] + h @ p["d"],
        {"a": (3, 4), "b": (3, 4), "c": (4, 2), "d": (4, 2)}, ["b"],
        {"a": "meets another unit in 'div'"},
    ),
    "weights times a statistic": (
        lambda p, x: (x @ (p["b"] * (h := jnp.tanh(x @ p["a"])).mean())) @ p["c"] + h @ p["d"],
        {"a": (3, 4), "b": (3, 4), "c": (4, 2), "d": (4, 2)}, [],
        {"a": "passes through 'dot_general'", "b": "meets no unit in 'mul'"},
    ),
    "weight normalization": (
        lambda p, x: jnp.tanh(jnp.tanh(jnp.tanh(x @ p["a"]) @ normed(p, "v", "g")) @ p["b"])
        @ p["c"],
        {"a": (3, 4), "v": (4, 4), "g": (4,), "b": (4, 5), "c": (5, 2)}, ["b"],
        {"a": "passes through 'dot_general'", "v": "passes through 'mul'", "g": "in 'mul'"},
    ),
    "a choice of weights": (
        lambda p, x: jnp.tanh(jnp.tanh(x @ p["a"]) @ jnp.where(jnp.eye(4) > 0, p["b"], 0))
        @ p["c"],
        {"a": (3, 4), "b": (4, 4), "c": (4, 2)}, [],
        {"a": "passes through 'dot_general'", "b": "passes through 'select_n'"},
    ),
    "embedding": (
        lambda p, x: jnp.tanh(p["t"][(x > 0).astype(int)].reshape(2, -1) @ p["a"]) @ p["c"],
        {"t": (2, 4), "a": (12, 4), "c": (4, 2)}, ["a"], {"t": "is used by 'gather'"},
    ),
    "tied embedding": (
        lambda p, x: jnp.tanh(p["t"][(x[:, 0] > 0).astype(int)] @ p["a"]) @ p["t"].T,
        {"t": (2, 4), "a": (4, 4)}, [], {"a": "is read by t, which is used by 'gather'"},
    ),
    "scalar": (
        lambda p, x: (jnp.tanh(x @ p["a"]) * p["t"]) @ p["c"],
        {"a": (3, 4), "t": (), "c": (4, 2)}, ["a"], {"t": "is shared by several units"},
    ),
    "bias of two layers": (
        lambda p, x: jnp.tanh(jnp.tanh(x @ p["a"] + p["t"][None]) @ p["b"] + p["t"][None])
        @ p["c"],
        {"a": (3, 4), "b": (4, 4), "t": (4,), "c": (4, 2)}, ["a", "b"],
        {"t": "is shared by several units"},
    ),
    "bias that is a scale": (
        lambda p, x: jnp.tanh(x @ p["a"] * p["t"][None] + p["t"][None]) @ p["c"],
        {"a": (3, 4), "t": (4,), "c": (4, 2)}, ["a"], {"t": "used twice"},
    ),
    "kernel that is a bias": (
        lambda p, x: jnp.tanh(x @ p["a"] + p["a"][:1]) @ p["c"],
        {"a": (3, 4), "c": (4, 2)}, [], {"a": "used twice"},
    ),
    "of the input": (
        lambda p, x: jnp.tanh((x * p["s"][None]) @ p["a"]) @ p["c"],
        {"s": (3,), "a": (3, 4), "c": (4, 2)}, ["a"], {"s": "meets no unit in 'mul'"},
    ),
    "beside a layer": (
        lambda p, x: jnp.hstack([jnp.tanh(x @ p["a"]), p["t"]]) @ p["c"],
        {"a": (3, 4), "t": (2, 2), "c": (6, 2)}, ["a"], {"t": "is used by 'concatenate'"},
    ),
    "another layer's mean that is added": (
        lambda p, x: (x @ p["b"] + (h := jnp.tanh(x @ p["a"])).mean(-1, keepdims=True))
        @ p["c"] + h @ p["d"],
        {"a": (3, 4), "b": (3, 4), "c": (4, 2), "d": (4, 2)}, [],
        {"a": "meets another unit in 'add'", "b": "adds to what parameters that are not followed"},
    ),
    "embedding that is added": (
        lambda p, x: jnp.tanh(jnp.tanh(p["t"][(x[:, 0] > 0).astype(int)] + x @ p["a"]) @ p["b"])
        @ p["c"],
        {"t": (2, 4), "a": (3, 4), "b": (4, 5), "c": (5, 2)}, ["b"],
        {"t": "is used by 'gather'", "a": "adds to what parameters that are not followed"},
    ),
    "norm of an embedding that is added": (  # as in BERT
        lambda p, x: (
            (e := (e := p["t"][(x[:, 0] > 0).astype(int)])
             * (jax.lax.rsqrt((e**2).mean(-1, keepdims=True)) * p["s"][None]) + p["n"][None])
            + jnp.tanh(e @ p["a"]) @ p["b"]) @ p["c"],
        {"t": (2, 4), "s": (4,), "n": (4,), "a": (4, 5), "b": (5, 4), "c": (4, 2)}, ["a"],
        {"t": "is used by 'gather'", "s": "meets no unit", "n": "meets no unit",
         "b": "adds to what parameters that are not followed"},
    ),
    "scale of the input that is added": (
        lambda p, x: ((y := x * p["s"][None]) + jnp.tanh(y @ p["a"]) @ p["b"]) @ p["c"],
        {"s": (3,), "a": (3, 4), "b": (4, 3), "c": (3, 2)}, ["a"],
        {"s": "meets no unit", "b": "adds to what parameters that are not followed"},
    ),
    "position that is added": (  # the same for all inputs: a bias
        lambda p, x: jnp.tanh(p["t"][jnp.array([1, 0])] + x @ p["a"]) @ p["c"],
        {"t": (2, 4), "a": (3, 4), "c": (4, 2)}, ["a"], {"t": "is used by 'gather'"},
    ),
    "gates that cross": (
        lambda p, x: ((h := jnp.tanh(x @ p["a"])) * (g := x @ p["b"]) + jnp.roll(h, 1, -1) * g)
        @ p["c"],
        {"a": (3, 4), "b": (3, 4), "c": (4, 2)}, [], {"a": "several", "b": "several"},
    ),
    "biases of what is no unit": (
        lambda p, x: jnp.sort((x @ p["a"] + p["b"][None]) * p["s"][None]) @ p["c"],
        {"a": (3, 4), "b": (4,), "s": (4,), "c": (4, 2)}, [],
        {"a": "'sort'", "b": "belongs to a, which passes through 'sort'", "s": "belongs to a"},
    ),
    "returned, or not used": (
        lambda p, x: {"mean": jnp.tanh(x @ p["a"]) @ p["c"], "log_std": p["s"]},
        {"a": (3, 4), "c": (4, 2), "s": (2,), "u": (2, 2)}, ["a"],
        {"s": "is returned", "u": "is not used"},
    ),
    "thrown away": (
        lambda p, x: (x @ p["a"] @ p["c"], x @ p["b"])[0],
        {"a": (3, 4), "b": (3, 4), "c": (4, 2)}, ["a"], {"b": "is not used"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_reasons(case):
    apply, shapes, layers, untraced = CASES[case]
    params = weights(**shapes)
    graph = trace_units(apply, params, X)
    assert list(graph.names) == layers
    assert dict(graph.untraced).keys() == untraced.keys()
    for name, reason in graph.untraced:
        assert untraced[name] in reason
    assert_complete(graph)
    check_units(apply, graph, params, X)


def test_a_product_of_two_layers_as_output():
    params = weights(a=(3, 4), b=(3, 4))
    graph = trace_units(lambda p, x: (x @ p["a"]) @ (x @ p["b"]).T, params, X)
    assert graph.layers == ()
    assert dict(graph.untraced).keys() == {"a", "b"}


def test_the_mean_of_a_layer_passes_for_a_normalization():
    params = weights(a=(3, 4), c=(4, 2))

    def apply(p, x):
        h = jnp.tanh(x @ p["a"])
        return (h * h.mean(-1, keepdims=True)) @ p["c"]

    graph = trace_units(apply, params, X)
    assert graph.names == ("a",)
    check_units(apply, graph, params, X, statistics=True)


@pytest.mark.parametrize(
    ("apply", "message"),
    [
        (lambda p, x: x, r"output layer is unknown.*w is not used"),
        (lambda p, x: None, r"output layer is unknown: `apply_fn` returns no arrays"),
        (lambda p, x: x @ jnp.tanh(p["w"]), r"output layer is unknown.*w passes through 'tanh"),
    ],
)
def test_an_output_that_no_kernel_reaches_is_an_error(apply, message):
    with pytest.raises(ValueError, match=message):
        trace_units(apply, weights(w=(3, 2)), X)
