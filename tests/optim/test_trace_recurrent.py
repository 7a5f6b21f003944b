"""Recurrent cells: a unit owns its entries of all gates."""

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from continual_learning.optim import trace_units
from tests.optim.unit_checks import assert_complete, check_units, linen, rows

X = jax.random.normal(jax.random.key(0), (2, 3))
WEIGHTS = {
    name: jnp.ones(shape)
    for name, shape in {"i": (3, 4), "h": (4, 4), "b": (4,), "c": (4, 2), "h0": (4,)}.items()
}


def elman(p, h, x):
    h = jnp.tanh(x @ p["i"] + h @ p["h"] + p["b"][None])
    return h, h @ p["c"]


@pytest.mark.parametrize("cell", [nn.SimpleCell, nn.GRUCell, nn.OptimizedLSTMCell, nn.LSTMCell])
@pytest.mark.parametrize("steps", [1, 3, 65])
def test_linen_cells(cell, steps):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.RNN(cell(3, name="cell"))(nn.tanh(nn.Dense(4, name="before")(x)))
            return nn.Dense(2, name="out")(nn.tanh(nn.Dense(5, name="after")(x)))

    apply, params, x = linen(Net(), steps, 3)
    graph = trace_units(apply, params, x)
    before, own, after = rows(graph)
    of_cell = {path for path in graph.shapes if "/cell/" in path}
    recurrent = {path for path in of_cell if path.split("/")[-2][0] == "h" and "bias" not in path}
    assert own[1] == 3
    assert own[2] | own[3] == of_cell
    assert own[4] == recurrent | {"params/after/kernel"}
    assert before[4] == {p for p in of_cell - recurrent if "kernel" in p}
    assert after[:2] == ("params/after/kernel", 5)
    assert graph.untraced == ()
    assert_complete(graph)
    if steps == 3:
        check_units(apply, graph, params, x)


def nnx_net(cell):
    class Net(nnx.Module):
        def __init__(self, rngs):
            self.rnn = nnx.RNN(cell(3, 4, rngs=rngs))
            self.out = nnx.Linear(4, 2, rngs=rngs)

        def __call__(self, x):
            return self.out(self.rnn(x))

    graphdef, params, rest = nnx.split(Net(nnx.Rngs(0)), nnx.Param, ...)
    return lambda params, x: nnx.merge(graphdef, params, rest, copy=True)(x), params


def equinox_net(cell):
    own = cell(3, 4, key=jax.random.key(0)), eqx.nn.Linear(4, 2, key=jax.random.key(1))
    params, static = eqx.partition(own, eqx.is_inexact_array)

    def one(params, xs):
        cell, out = eqx.combine(params, static)
        start = jnp.zeros(4) if isinstance(cell, eqx.nn.GRUCell) else (jnp.zeros(4), jnp.zeros(4))

        def step(state, x):
            state = cell(x, state)
            return state, state if isinstance(cell, eqx.nn.GRUCell) else state[0]

        _, hs = jax.lax.scan(step, start, xs)
        return jax.vmap(out)(hs)

    return lambda params, x: jax.vmap(one, (None, 0))(params, x), params


def haiku_net(cell):
    def net(x):
        core = cell(4)
        hs, _ = hk.dynamic_unroll(core, x, core.initial_state(len(x)), time_major=False)
        return hk.Linear(2)(hs)

    init, apply = hk.without_apply_rng(hk.transform(net))
    return apply, init(jax.random.key(0), jnp.ones((2, 3, 3)))


NETS = {
    "nnx elman": (nnx_net, nnx.SimpleCell),
    "nnx gru": (nnx_net, nnx.GRUCell),
    "nnx lstm": (nnx_net, nnx.OptimizedLSTMCell),
    "nnx lstm, not fused": (nnx_net, nnx.LSTMCell),
    "equinox gru": (equinox_net, eqx.nn.GRUCell),
    "equinox lstm": (equinox_net, eqx.nn.LSTMCell),
    "haiku elman": (haiku_net, hk.VanillaRNN),
    "haiku gru": (haiku_net, hk.GRU),
    "haiku lstm": (haiku_net, hk.LSTM),
}


@pytest.mark.parametrize("net", NETS)
def test_cells_of_other_frameworks(net):
    make, cell = NETS[net]
    apply, params = make(cell)
    x = jax.random.normal(jax.random.key(0), (2, 3, 3))
    graph = trace_units(apply, params, x)
    (layer,) = graph.layers
    assert layer.size == 4
    assert graph.untraced == ()
    assert len(graph.output) == 2
    assert_complete(graph)
    check_units(apply, graph, params, x)


def test_a_single_step():
    h = jnp.zeros((2, 4))
    expected = [("i", 4, {"i", "h"}, {"b"}, {"h", "c"})]
    params = {k: w for k, w in WEIGHTS.items() if k != "h0"}
    graph = trace_units(elman, params, h, X)
    assert rows(graph) == rows(trace_units(elman, params, h, X, carries=(0,))) == expected
    assert graph.output == ("c",)
    assert_complete(graph)

    def logits(p, h, x):
        return elman(p, h, x)[1]

    with pytest.raises(ValueError, match=r"looks like the carry of the recurrent layer 'i'"):
        trace_units(logits, params, h, X)
    with pytest.raises(ValueError, match=r"returns nothing of the structure of input 0"):
        trace_units(logits, params, h, X, carries=(0,))
    with pytest.raises(ValueError, match=r"no input 2 of 2"):
        trace_units(logits, params, h, X, carries=(2,))
    assert rows(trace_units(logits, params, h, X, carries=())) == [
        ("i", 4, {"i", "h"}, {"b"}, {"c"})
    ]


def test_a_carry_as_wide_as_the_input():
    h = jnp.zeros((2, 4))
    params = {**WEIGHTS, "i": jnp.ones((4, 4))}
    with pytest.raises(ValueError, match=r"looks like the carry"):
        trace_units(elman, params, h, jnp.ones((2, 4)))
    graph = trace_units(elman, params, h, jnp.ones((2, 4)), carries=(0,))
    assert rows(graph) == [("i", 4, {"i", "h"}, {"b"}, {"h", "c"})]


def test_an_initial_state_that_is_learned_is_a_bias():
    def apply(p, x):
        start = jnp.broadcast_to(p["h0"], (len(x), 4))
        return jax.lax.scan(lambda h, x: elman(p, h, x), start, x.swapaxes(0, 1))[1]

    x = jax.random.normal(jax.random.key(0), (2, 3, 3))
    graph = trace_units(apply, WEIGHTS, x)
    assert rows(graph) == [("i", 4, {"i", "h"}, {"b", "h0"}, {"h", "c"})]
    check_units(apply, graph, WEIGHTS, x)


def test_an_initial_state_that_another_layer_makes():
    params = {**WEIGHTS, "e": jnp.ones((3, 4))}

    def apply(p, x):
        start = jnp.tanh(x[:, 0] @ p["e"])
        return jax.lax.scan(lambda h, x: elman(p, h, x), start, x.swapaxes(0, 1))[1]

    x = jax.random.normal(jax.random.key(0), (2, 3, 3))
    graph = trace_units(apply, params, x)
    assert rows(graph) == [("e", 4, {"e", "i", "h"}, {"b"}, {"h", "c"})]
    assert dict(graph.untraced) == {"h0": "is not used"}
    check_units(apply, graph, params, x)


def test_a_carry_that_is_permuted_is_refused():
    def apply(p, x):
        def step(h, x):
            h = elman(p, h, x)[0] + h[:, ::-1]
            return h, h @ p["c"]

        return jax.lax.scan(step, jnp.zeros((2, 4)), x.swapaxes(0, 1))[1]

    graph = trace_units(apply, WEIGHTS, jnp.ones((2, 3, 3)))
    assert graph.layers == ()
    assert "several outputs" in dict(graph.untraced)["h"]


def test_features_of_all_steps():
    def apply(p, x):
        def step(h, x):
            return elman(p, h, x)

        h, _ = jax.lax.scan(step, jnp.zeros((len(x), 4)), x.swapaxes(0, 1))
        return h @ p["c"]

    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda w: jnp.asarray(rng.normal(size=w.shape), w.dtype), WEIGHTS)
    x = jax.random.normal(jax.random.key(0), (2, 5, 3))
    graph = trace_units(apply, params, x[:1])
    traced = graph.with_features(apply)
    out, features, pre = jax.jit(traced)(params, x)
    h, hs, zs = jnp.zeros((2, 4)), [], []
    for t in range(5):
        zs.append(x[:, t] @ params["i"] + h @ params["h"] + params["b"][None])
        h = jnp.tanh(zs[-1])
        hs.append(h)
    np.testing.assert_allclose(out, h @ params["c"], rtol=1e-4)
    np.testing.assert_allclose(features["i"], jnp.stack(hs, 1), rtol=1e-4)
    np.testing.assert_allclose(pre["i"], jnp.stack(zs, 1), rtol=1e-4, atol=1e-5)
    assert "scan" in str(jax.make_jaxpr(traced)(params, x))
    with pytest.raises(ValueError, match="used in every iteration of a scan"):
        graph.per_sample_scores(lambda p, x: jnp.mean(apply(p, x) ** 2))(params, x)


def test_resets_move_all_gates_of_a_unit():
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(2, name="out")(nn.RNN(nn.GRUCell(3, name="cell"))(x))

    apply, params, x = linen(Net(), 4, 3)
    graph = trace_units(apply, params, x)
    (name,) = graph.names
    mask = graph.incoming({name: np.array([True, False, False])})["params"]["cell"]
    for kernel in ("ir", "iz", "in", "hr", "hz", "hn"):
        np.testing.assert_array_equal(mask[kernel]["kernel"].any(0), [True, False, False])
