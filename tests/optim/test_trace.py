"""Units traced from programs: named architectures."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.optim import CBP, CPR, attach_reset_method, sequential_units, trace_units
from tests.optim.unit_checks import check_units, linen, rows


class Mlp(nn.Module):
    depth: int = 12

    @nn.compact
    def __call__(self, x):
        for i in range(self.depth):
            x = nn.tanh(nn.Dense(3 + i % 3, name=f"z{self.depth - i}")(x))
        return nn.Dense(2, name="a")(x)


def test_twelve_layers_with_names_in_reverse():
    apply, params, x = linen(Mlp(), 4)
    graph = trace_units(apply, params, x)
    assert graph.names == tuple(f"params/z{12 - i}/kernel" for i in range(12))
    assert [layer.size for layer in graph.layers] == [3 + i % 3 for i in range(12)]
    assert graph.untraced == ()
    check_units(apply, graph, params, x, units=1)


class Cnn(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.max_pool(nn.tanh(nn.Conv(4, (3, 3), strides=2)(x)), (2, 2), (2, 2))
        x = nn.avg_pool(nn.tanh(nn.Conv(3, (3, 3), use_bias=False)(x)), (2, 2), (1, 1))
        return nn.Dense(2)(nn.tanh(nn.Dense(5)(x.reshape(x.shape[0], -1))))


def test_cnn_with_pooling_and_strides():
    apply, params, x = linen(Cnn(), 12, 12, 2)
    graph = trace_units(apply, params, x)
    assert [layer.size for layer in graph.layers] == [4, 3, 5]
    check_units(apply, graph, params, x)
    kernel = graph.layers[1].outgoing[0]
    np.testing.assert_array_equal(kernel.index, np.arange(len(kernel.index)) % 3)
    assert kernel.position is None  # pooled: no row reads one position of the feature
    assert graph.layers[1].bias == ()


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 3, 1, 2)], ids=["nhwc", "nchw"])
def test_flatten_in_either_order(order):
    params = {"c": jnp.ones((3, 3, 1, 2)), "d": jnp.ones((24, 4)), "e": jnp.ones((4, 3))}

    def apply(params, x):
        dims = ("NHWC", "HWIO", "NHWC")
        x = jax.lax.conv_general_dilated(x, params["c"], (1, 1), "SAME", dimension_numbers=dims)
        x = jnp.tanh(x).transpose(order).reshape(x.shape[0], -1)
        return jnp.tanh(x @ params["d"]) @ params["e"]

    x = jax.random.normal(jax.random.key(0), (2, 3, 4, 1))
    graph = trace_units(apply, params, x)
    flatten = "channels_last" if order[1] == 1 else "channels_first"
    expected = sequential_units(params, ["c", "d", "e"], flatten=flatten)
    link, other = graph.layers[0].outgoing[0], expected.layers[0].outgoing[0]
    np.testing.assert_array_equal(link.index, other.index)
    np.testing.assert_array_equal(link.position, other.position)
    check_units(apply, graph, params, x)


def test_kernels_stored_transposed_and_in_oihw():
    params = {"c": jnp.ones((3, 2, 3, 3)), "w": jnp.ones((5, 12)), "v": jnp.ones((2, 5))}

    def apply(params, x):
        x = jnp.tanh(jax.lax.conv(x, params["c"], (1, 1), "VALID"))
        return jnp.tanh(x.reshape(x.shape[0], -1) @ params["w"].T) @ params["v"].T

    x = jax.random.normal(jax.random.key(0), (2, 2, 4, 4))
    graph = trace_units(apply, params, x)
    assert [layer.incoming[0].axes for layer in graph.layers] == [(0,), (0,)]
    kernels = {k.param: k for k in graph.kernels}
    assert (kernels["c"].outputs, kernels["c"].inputs, kernels["c"].spatial) == ((0,), (1,), (2, 3))
    assert (kernels["w"].outputs, kernels["w"].inputs) == ((0,), (1,))
    check_units(apply, graph, params, x)


@pytest.mark.parametrize(
    "norm", [nn.LayerNorm(), nn.RMSNorm(), nn.GroupNorm(2), nn.BatchNorm(use_running_average=True)]
)
def test_norms_are_part_of_their_unit(norm):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.Dense(4, name="a")(x)
            return nn.Dense(2, name="b")(nn.tanh(norm.copy(name="n")(x)))

    module, x = Net(), jax.random.normal(jax.random.key(0), (2, 3))
    variables = module.init(jax.random.key(0), x)
    rest = {k: v for k, v in variables.items() if k != "params"}

    def apply(params, x):
        return module.apply({"params": params, **rest}, x)

    graph = trace_units(apply, variables["params"], x)
    ((name, size, _, bias, _),) = rows(graph)
    assert (name, size) == ("a/kernel", 4)
    expected = {"a/bias", "n/scale"} | (set() if isinstance(norm, nn.RMSNorm) else {"n/bias"})
    assert bias == expected
    assert [link.param for link in graph.layers[0].scale] == ["n/scale"]
    assert graph.kernels[0].bias == "a/bias"
    assert graph.untraced == ()
    check_units(apply, graph, variables["params"], x, statistics=True)


def test_batch_norm_in_training_and_explicit_padding():
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
            x = nn.relu(nn.BatchNorm(use_running_average=False)(nn.Conv(3, (3, 3))(x)))
            x = nn.Conv(4, (3, 3))(jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))))
            return nn.Dense(2)(jnp.pad(nn.tanh(x), ((0, 0), (1, 0), (0, 0), (0, 0))).mean((1, 2)))

    module, x = Net(), jnp.ones((2, 5, 5, 1))
    variables = module.init(jax.random.key(0), x)
    stats = {"batch_stats": variables["batch_stats"]}

    def apply(params, x):
        return module.apply({"params": params, **stats}, x, mutable=["batch_stats"])[0]

    graph = trace_units(apply, variables["params"], x)
    norm = {"BatchNorm_0/scale", "BatchNorm_0/bias"}
    assert [(r[1], r[3]) for r in rows(graph)] == [
        (3, {"Conv_0/bias", *norm}),
        (4, {"Conv_1/bias"}),
    ]
    assert graph.untraced == ()
    # A statistic of one unit over batch and places is its own: nothing needs to be held fixed.
    check_units(apply, graph, variables["params"], jax.random.normal(jax.random.key(0), x.shape))


class Residual(nn.Module):
    @nn.compact
    def __call__(self, x):
        skip = x
        x = nn.Dense(4, name="embed")(x)
        for i in range(2):
            x = x + nn.Dense(4, name=f"down{i}")(nn.tanh(nn.Dense(6, name=f"up{i}")(x)))
        x = jnp.concatenate([nn.tanh(x), skip, nn.tanh(nn.Dense(3, name="side")(x))], -1)
        return nn.Dense(2, name="value")(x), nn.Dense(3, name="advantage")(x)


def test_residual_sums_concatenation_skip_inputs_and_two_heads():
    apply, params, x = linen(Residual(), 3)
    graph = trace_units(apply, params, x)
    stream = graph.layers[0]
    assert stream.name == "params/embed/kernel"
    assert {link.param for link in stream.incoming} == {
        "params/embed/kernel",
        "params/down0/kernel",
        "params/down1/kernel",
    }
    readers = {link.param: link for link in stream.outgoing}
    assert set(readers) == {
        f"params/{n}/kernel" for n in ("up0", "up1", "side", "value", "advantage")
    }
    np.testing.assert_array_equal(
        readers["params/value/kernel"].index, [0, 1, 2, 3, -1, -1, -1, -1, -1, -1]
    )
    assert [layer.size for layer in graph.layers] == [4, 6, 6, 3]
    check_units(apply, graph, params, x)


def test_a_critic_of_two_inputs_twins_and_an_ensemble():
    def critic(p, s, a):
        h = jnp.tanh(jnp.concatenate([s, a], -1) @ p["w0"] + p["b0"][None])
        return h @ p["w1"] + p["b1"][None]

    one = {"w0": jnp.ones((5, 4)), "b0": jnp.ones(4), "w1": jnp.ones((4, 1)), "b1": jnp.ones(1)}
    s, a = jax.random.normal(jax.random.key(0), (2, 3)), jnp.ones((2, 2))
    twins = {"q1": one, "q2": one}

    def both(p, s, a):
        return critic(p["q1"], s, a), critic(p["q2"], s, a)

    graph = trace_units(both, twins, s, a)
    assert [r[:2] for r in rows(graph)] == [("q1/w0", 4), ("q2/w0", 4)]
    check_units(both, graph, twins, s, a)

    stacked = jax.tree.map(lambda x: jnp.stack([x] * 3), one)
    ensemble = jax.vmap(critic, (0, None, None))
    graph = trace_units(ensemble, stacked, s, a)
    assert [r[:2] for r in rows(graph)] == [("w0", 12)]
    assert graph.layers[0].outgoing[0].axes == (0, 1)
    assert graph.kernels[1].copies == (0,)
    check_units(ensemble, graph, stacked, s, a)


def test_jit_checkpoint_dropout_and_bfloat16_inside():
    params = {"a": jnp.ones((3, 4)), "b": jnp.ones((4, 5)), "c": jnp.ones((5, 2))}

    @jax.checkpoint
    def block(w, x):
        return nn.swish(x @ w)

    def apply(params, x):
        x = jax.jit(block)(params["a"], x.astype(jnp.bfloat16)).astype(jnp.float32)
        keep = jax.random.bernoulli(jax.random.key(0), 0.8, x.shape)
        x = jnp.where(keep, x / 0.8, 0)
        return jax.nn.gelu(x @ params["b"]) @ params["c"]

    x = jax.random.normal(jax.random.key(0), (2, 3))
    graph = trace_units(apply, params, x)
    assert [r[:2] for r in rows(graph)] == [("a", 4), ("b", 5)]
    assert graph.untraced == ()
    check_units(apply, graph, params, x)


def test_the_optimizer_takes_a_traced_graph():
    apply, params, x = linen(Cnn(), 12, 12, 2)
    tx = attach_reset_method(
        tx=optax.adam(1e-2),
        reset_method=CPR(max_reset=0.5, every=1),
        units=lambda params: trace_units(apply, params, x),
    )
    state = tx.init(params)

    @jax.jit
    def step(params, state):
        grads = jax.grad(lambda p: jnp.sum(apply(p, x) ** 2))(params)
        updates, state = tx.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    for _ in range(2):
        params, state = step(params, state)
    assert (state.log.amount > 0).all()
    graph = trace_units(apply, params, x)
    with pytest.raises(ValueError, match="CBP needs `features`"):
        cbp = attach_reset_method(tx=optax.sgd(0.1), reset_method=CBP(), units=graph)
        cbp.update(params, cbp.init(params), params)


def test_dense_general_concatenation_chains_and_a_flat_vector():
    class Heads(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.tanh(nn.DenseGeneral((2, 3), name="split")(x))
            return nn.Dense(2)(nn.tanh(nn.DenseGeneral(4, axis=(-2, -1), name="join")(x)))

    apply, params, x = linen(Heads(), 3)
    graph = trace_units(apply, params, x)
    assert [layer.size for layer in graph.layers] == [6, 4]
    assert graph.layers[0].outgoing[0].axes == (0, 1)
    check_units(apply, graph, params, x, units=6)

    def dense_net(p, x):
        for name in ("a", "b"):
            x = jnp.concatenate([x, jnp.tanh(x @ p[name])], -1)
        return x @ p["c"]

    params = {"a": jnp.ones((3, 2)), "b": jnp.ones((5, 4)), "c": jnp.ones((9, 2))}
    graph = trace_units(dense_net, params, x)
    assert [r[4] for r in rows(graph)] == [{"b", "c"}, {"c"}]
    check_units(dense_net, graph, params, x)

    def flat(p, x):
        h = jnp.tanh(x @ p[:12].reshape(3, 4) + p[12:16][None])
        return jnp.tanh(h @ p[16:32].reshape(4, 4)) @ p[32:].reshape(4, 2)

    graph = trace_units(flat, jnp.ones(40), x)
    assert [layer.size for layer in graph.layers] == [4, 4]
    np.testing.assert_array_equal(graph.layers[0].bias[0].index[12:16], range(4))
    check_units(flat, graph, jnp.ones(40), x)
