"""What a function returns: outputs, state beside them, and what cannot be told."""

import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import optax
import pytest

from continual_learning.optim import (
    CPR,
    NoReset,
    ShrinkAndPerturb,
    attach_reset_method,
    trace_units,
)
from tests.optim.unit_checks import assert_complete, check_units, rows

X = jax.random.normal(jax.random.key(0), (2, 3))


def weights(**shapes):
    return {name: jnp.ones(shape) for name, shape in shapes.items()}


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        for width in (4, 5):
            x = nn.relu(nn.BatchNorm(use_running_average=False)(nn.Conv(width, (2, 2))(x)))
        return nn.Dense(2)(x.mean((1, 2)))


@pytest.mark.parametrize("stats", ["closed over", "input", "parameter"])
def test_batch_statistics_are_no_output(stats):
    module, x = Net(), jax.random.normal(jax.random.key(0), (2, 4, 4, 1))
    variables = module.init(jax.random.key(0), x)
    params, rest = variables["params"], {"batch_stats": variables["batch_stats"]}

    def apply(params, rest, x):
        return module.apply({"params": params, **rest}, x, mutable=["batch_stats"])

    graph = {
        "closed over": lambda: trace_units(lambda p, x: apply(p, rest, x), params, x),
        "input": lambda: trace_units(apply, params, rest, x),
        "parameter": lambda: trace_units(
            lambda v, x: module.apply(v, x, mutable=["batch_stats"]), variables, x
        ),
    }[stats]()
    assert [layer.size for layer in graph.layers] == [4, 5]
    assert len(graph.untraced) == (4 if stats == "parameter" else 0)
    assert_complete(graph)
    if stats == "input":
        check_units(lambda *args: apply(*args)[0], graph, params, rest, x)


def test_state_of_haiku_is_no_output():
    def net(x):
        x = hk.BatchNorm(True, True, 0.9)(hk.Conv2D(4, 2)(x), True)
        return hk.Linear(2)(jax.nn.relu(x).mean((1, 2)))

    module, x = hk.without_apply_rng(hk.transform_with_state(net)), jnp.ones((2, 4, 4, 1))
    params, state = module.init(jax.random.key(0), x)
    graph = trace_units(module.apply, params, state, x)
    assert graph.names == ("conv2_d/w",)
    assert rows(graph)[0][3] == {"conv2_d/b", "batch_norm/scale", "batch_norm/offset"}
    assert graph.output == ("linear/b", "linear/w")
    assert_complete(graph)


def test_hidden_units_that_are_returned_must_be_asked_for():
    params = weights(a=(3, 4), b=(4, 5), c=(5, 2))

    def apply(p, x):
        h = jnp.tanh(x @ p["a"])
        return {"features": h, "y": jnp.tanh(h @ p["b"]) @ p["c"]}

    with pytest.raises(ValueError, match=r"hidden units of 'a' in its part \['features'\]"):
        trace_units(apply, params, X)
    graph = trace_units(apply, params, X, output=lambda out: out["y"])
    assert (graph.names, graph.output) == (("a", "b"), ("c",))
    check_units(lambda p, x: apply(p, x)["y"], graph, params, X)
    graph = trace_units(apply, params, X, output=lambda out: out)
    assert (graph.names, graph.output, graph.untraced) == (("b",), ("a", "c"), ())
    check_units(apply, graph, params, X)


def test_a_measure_of_hidden_units_must_be_asked_for():
    params = weights(a=(3, 4), b=(4, 2))

    def apply(p, x):
        h = jnp.tanh(x @ p["a"])
        return h @ p["b"], jnp.square(h).mean()

    with pytest.raises(ValueError, match=r"hidden units of 'a' in its part \[1\]"):
        trace_units(apply, params, X)
    assert trace_units(apply, params, X, output=lambda out: out[0]).names == ("a",)


def test_an_output_of_the_shape_of_an_input_is_output():
    params = weights(a=(3, 4), b=(4, 3), c=(4, 1))

    def apply(p, x, noise):
        h = jnp.tanh(x @ p["a"] + noise)
        return h @ p["b"], h @ p["c"]

    graph = trace_units(apply, params, X, jnp.ones((2, 4)))
    assert (graph.names, graph.output) == (("a",), ("b", "c"))


def test_a_stream_that_is_returned_and_read():
    params = weights(a=(3, 4), u=(4, 5), d=(5, 4))

    def apply(p, x):
        x = x @ p["a"]
        return x + jnp.tanh(x @ p["u"]) @ p["d"]

    graph = trace_units(apply, params, X)
    assert (graph.names, graph.output) == (("u",), ("a", "d"))
    assert_complete(graph)


def test_a_graph_without_units_is_an_error_at_attach():
    params = weights(a=(3, 4), c=(4, 2))
    graph = trace_units(lambda p, x: jnp.sort(x @ p["a"]) @ p["c"], params, X)
    message = r"no hidden units that CPR could reset: a passes through 'sort'.*NoReset"
    with pytest.raises(ValueError, match=message):
        attach_reset_method(tx=optax.sgd(0.1), reset_method=CPR(), units=graph)
    tx = attach_reset_method(tx=optax.sgd(0.1), reset_method=CPR(), units=lambda _: graph)
    with pytest.raises(ValueError, match=message):
        tx.init(params)
    for method in (NoReset(), ShrinkAndPerturb(shrink=0.1, perturb=0.1, every=1)):
        attach_reset_method(tx=optax.sgd(0.1), reset_method=method, units=graph).init(params)
