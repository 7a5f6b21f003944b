"""One network, written in five ways, has one graph: up to the names and layouts of parameters."""

import functools

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from continual_learning.optim import CPR, attach_reset_method, trace_units
from continual_learning.optim.trees import named_leaves
from tests.optim.frameworks import FRAMEWORKS, PLAIN, NnxMlp, from_plain, to_plain


def inputs(network):
    return jax.random.normal(jax.random.key(1), {"mlp": (6, 3), "cnn": (6, 4, 6, 2)}[network])


@functools.cache
def reference(network):
    """The plain function, random parameters and their graph."""
    x = inputs(network)
    rng = np.random.default_rng(0)
    params = to_plain("linen", FRAMEWORKS["linen"](network, x)[1])
    params = jax.tree.map(lambda w: jnp.asarray(rng.normal(size=w.shape), w.dtype), params)
    return PLAIN[network], params, trace_units(PLAIN[network], params, x[:1])


@pytest.fixture(params=["mlp", "cnn"])
def network(request):
    return request.param


@pytest.fixture(params=FRAMEWORKS)
def framework(request):
    return request.param


@pytest.fixture
def model(framework, network):
    """The framework's function, the reference's parameters and their graph."""
    x = inputs(network)
    apply, params = FRAMEWORKS[framework](network, x)
    params = from_plain(framework, reference(network)[1], like=params)
    return apply, params, trace_units(apply, params, x[:1])


def links(layer):
    """Parameters of a layer by role: incoming, bias, scale, outgoing."""
    roles = (layer.incoming, layer.bias, layer.scale, layer.outgoing)
    return tuple({link.param for link in role} for role in roles)


def test_the_graph_of_plain_functions(network):
    graph = reference(network)[2]
    assert graph.untraced == ()
    assert [(layer.size, *links(layer)) for layer in graph.layers] == {
        "mlp": [(4, {"a/w"}, {"a/b"}, set(), {"b/w"}), (5, {"b/w"}, {"b/b"}, set(), {"c/w"})],
        "cnn": [
            (4, {"a/w", "b/w"}, {"a/b", "b/b"}, set(), {"b/w", "c/w"}),
            (5, {"c/w"}, {"c/b", "norm/b"}, {"norm/w"}, {"d/w"}),
        ],
    }[network]


def test_the_networks_are_the_same(network, model):
    plain, params, _ = reference(network)
    x = inputs(network)
    np.testing.assert_allclose(model[0](model[1], x), plain(params, x), rtol=1e-4, atol=1e-4)


def kernels(graph):
    """Extents of every kernel by the use of its axes, and whether it has a bias."""

    def extents(kernel, axes):
        return tuple(graph.shapes[kernel.param][a] for a in axes)

    return [
        (*(extents(k, axes) for axes in (k.copies, k.spatial, k.inputs, k.outputs)), bool(k.bias))
        for k in graph.kernels
    ]


def test_the_graphs_are_the_same(framework, network, model):
    graph, expected = model[2], reference(network)[2]
    assert graph.untraced == ()
    assert kernels(graph) == kernels(expected)
    for layer, other in zip(graph.layers, expected.layers, strict=True):
        assert layer.size == other.size
        assert [*map(len, links(layer))] == [*map(len, links(other))]
        for unit in np.eye(layer.size, dtype=bool):
            for role in ("incoming", "bias", "outgoing"):
                mask = to_plain(framework, getattr(graph, role)({layer.name: unit}))
                expected_mask = getattr(expected, role)({other.name: unit})
                jax.tree.map(np.testing.assert_array_equal, mask, expected_mask)


def optimizer(graph):
    method = CPR(max_reset=0.5, every=1)
    return attach_reset_method(tx=optax.adam(0.01), reset_method=method, units=graph)


def train(apply, params, graph, x, steps=2):
    """Parameters and log after `steps` steps; all but the first reset."""
    tx = optimizer(graph)

    @jax.jit
    def step(params, state):
        grads = jax.grad(lambda p: jnp.mean(apply(p, x) ** 2))(params)
        updates, state = tx.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    state = tx.init(params)
    for _ in range(steps):
        params, state = step(params, state)
    return params, state.log


@functools.cache
def trained_reference(network):
    return train(*reference(network), inputs(network))


@pytest.mark.parametrize("network", ["cnn"])
def test_the_resets_are_the_same(framework, network, model):
    params, log = train(*model, inputs(network))
    expected, expected_log = trained_reference(network)
    assert (expected_log.amount > 0).all()
    np.testing.assert_allclose(log.amount, expected_log.amount, rtol=1e-3)
    params = to_plain(framework, params)
    # All that is not drawn at random: drawn kernels depend on the order of their entries.
    for layer, leaf in [*((layer, "b") for layer in expected), ("norm", "w"), ("d", "w")]:
        np.testing.assert_allclose(params[layer][leaf], expected[layer][leaf], rtol=0.01, atol=1e-4)


def test_nnx_optimizer_trains_as_a_loop_of_ones_own():
    x = inputs("mlp")
    apply, params = FRAMEWORKS["nnx"]("mlp", x)
    graph = trace_units(apply, params, x[:1])
    expected, expected_log = train(apply, params, graph, x)

    model = NnxMlp(nnx.Rngs(0))
    own = nnx.Optimizer(model, optimizer(graph), wrt=nnx.Param)

    @nnx.jit
    def step(model, own):
        own.update(model, nnx.grad(lambda model: jnp.mean(model(x) ** 2))(model))

    for _ in range(2):
        step(model, own)
    assert (expected_log.amount > 0).all()
    np.testing.assert_allclose(own.opt_state.log.amount, expected_log.amount, rtol=1e-4)
    found, expected = (named_leaves(nnx.to_pure_dict(p)) for p in (nnx.state(model), expected))
    assert found.keys() == expected.keys()
    for path, leaf in expected.items():
        np.testing.assert_allclose(found[path], leaf, rtol=1e-4, atol=1e-6)


def test_batch_norm_and_dropout_of_nnx_in_training():
    class Net(nnx.Module):
        def __init__(self):
            rngs = nnx.Rngs(0)
            self.conv, self.out = nnx.Conv(1, 4, (3, 3), rngs=rngs), nnx.Linear(4, 2, rngs=rngs)
            self.norm, self.drop = nnx.BatchNorm(4, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)

        def __call__(self, x):
            return self.out(self.drop(nnx.relu(self.norm(self.conv(x)))).mean((1, 2)))

    graphdef, params, rest = nnx.split(Net(), nnx.Param, ...)
    with pytest.raises(ValueError, match="copy=True"):
        trace_units(lambda p, x: nnx.merge(graphdef, p, rest)(x), params, jnp.ones((1, 5, 5, 1)))

    def apply(params, x):
        return nnx.merge(graphdef, params, rest, copy=True)(x)

    graph = trace_units(apply, params, jnp.ones((1, 5, 5, 1)))
    assert graph.names == ("conv/kernel",)
    assert graph.untraced == ()  # the running statistics are thrown away here: no use of a unit
    assert {link.param for link in graph.layers[0].scale} == {"norm/scale"}


def test_an_equinox_module_as_parameters():
    class Net(eqx.Module):
        mlp: eqx.nn.MLP
        drop: eqx.nn.Dropout
        out: eqx.nn.Linear

        def __init__(self):
            one, two = jax.random.split(jax.random.key(0))
            self.mlp = eqx.nn.MLP(3, 5, 4, 1, key=one)
            self.drop = eqx.nn.Dropout(0.5, inference=True)
            self.out = eqx.nn.Linear(5, 2, key=two)

        def __call__(self, x):
            return self.out(self.drop(jnp.tanh(self.mlp(x))))

    def apply(model, x):
        return jax.vmap(model)(x)

    model, x = Net(), jnp.ones((6, 3))
    graph = trace_units(apply, model, x)
    params, static = eqx.partition(model, eqx.is_inexact_array)
    expected = trace_units(lambda p, x: apply(eqx.combine(p, static), x), params, x)
    assert graph.names == expected.names == ("mlp/layers/0/weight", "mlp/layers/1/weight")
    assert graph.shapes == expected.shapes
    assert graph.untraced == ()
    optimizer(graph).init(params)
    _, features, _ = graph.with_features(apply)(model, x)
    assert features["mlp/layers/1/weight"].shape == (6, 5)


def test_an_equinox_module_with_its_size_as_a_field():
    class Net(eqx.Module):
        size: int
        cell: eqx.nn.GRUCell
        out: eqx.nn.Linear

        def __call__(self, x):
            def step(h, x):
                return self.cell(x, h), None

            return self.out(jax.lax.scan(step, jnp.zeros(self.size), x)[0])

    one, two = jax.random.split(jax.random.key(0))
    model = Net(4, eqx.nn.GRUCell(3, 4, key=one), eqx.nn.Linear(4, 2, key=two))
    graph = trace_units(lambda model, x: jax.vmap(model)(x), model, jnp.ones((1, 5, 3)))
    assert [layer.size for layer in graph.layers] == [4]
    assert graph.untraced == ()
    assert "size" not in graph.shapes


def test_a_norm_over_a_named_axis():
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            norm = nn.BatchNorm(use_running_average=False, axis_name="batch", name="norm")
            return nn.Dense(2)(nn.relu(norm(nn.Conv(4, (3, 3), name="conv")(x))).mean((1, 2)))

    module, x = Net(), jnp.ones((2, 4, 4, 1))
    variables = jax.vmap(module.init, (None, 0), axis_name="batch")(jax.random.key(0), x[None])
    variables = jax.tree.map(lambda x: x[0], variables)
    stats = {"batch_stats": variables["batch_stats"]}

    def apply(p, x):
        return module.apply({"params": p, **stats}, x, mutable=["batch_stats"])

    with pytest.raises(ValueError, match=r"batch.*axis_name=NAME"):
        trace_units(apply, variables["params"], x)
    graph = trace_units(
        lambda p, x: jax.vmap(lambda x: apply(p, x), axis_name="batch")(x[None]),
        variables["params"],
        x,
    )
    assert graph.names == ("conv/kernel",)
    assert links(graph.layers[0])[1:3] == ({"conv/bias", "norm/bias"}, {"norm/scale"})
    assert graph.untraced == ()
