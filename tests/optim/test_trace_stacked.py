"""Units of layers that are stacked in one parameter, in a loop and in a scan."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from continual_learning.optim import CPR, attach_reset_method, trace_units
from tests.optim.unit_checks import check_units, linen, rows


def test_layers_stacked_in_one_parameter():
    params = {"w": jnp.ones((3, 4, 4)), "b": jnp.ones((3, 4)), "out": jnp.ones((4, 2))}

    def apply(params, x):
        for i in range(3):
            x = jnp.tanh(x @ params["w"][i] + params["b"][i][None])
        return x @ params["out"]

    x = jax.random.normal(jax.random.key(0), (2, 4))
    graph = trace_units(apply, params, x)
    assert graph.names == ("w", "w#2", "w#3")
    assert graph.kernels[0].copies == (0,)
    np.testing.assert_array_equal(graph.layers[1].incoming[0].index[0], [-1] * 4)
    check_units(apply, graph, params, x)
    tx = attach_reset_method(
        tx=optax.sgd(0.1), reset_method=CPR(max_reset=0.5, every=1), units=graph
    )
    state = tx.init(params)
    for _ in range(2):
        _, state = tx.update(jax.tree.map(jnp.ones_like, params), state, params)
    np.testing.assert_allclose(state.log.amount, 2.0)  # 4 units of utility 1, by a half


def test_layers_stacked_in_a_scan_are_those_of_the_loop():
    params = {"w": jnp.ones((3, 4, 4)), "b": jnp.ones((3, 4)), "out": jnp.ones((4, 2))}
    x = jax.random.normal(jax.random.key(0), (2, 4))

    def layer(x, now):
        w, b = now
        return jnp.tanh(x @ w + b[None]), x.sum()

    for reverse in (False, True):

        def scanned(params, x, reverse=reverse):
            x, _ = jax.lax.scan(layer, x, (params["w"], params["b"]), reverse=reverse)
            return x @ params["out"]

        def loop(params, x, reverse=reverse):
            for i in reversed(range(3)) if reverse else range(3):
                x, _ = layer(x, (params["w"][i], params["b"][i]))
            return x @ params["out"]

        graph, expected = trace_units(scanned, params, x), trace_units(loop, params, x)
        assert graph.names == ("w", "w#2", "w#3")
        assert graph.untraced == expected.untraced == ()
        assert_same_layers(graph, expected)
        check_units(scanned, graph, params, x)


def assert_same_layers(graph, expected):
    assert [x.name for x in graph.layers] == [x.name for x in expected.layers]
    for layer, other in zip(graph.layers, expected.layers, strict=True):
        for link, its in zip(layer.links(), other.links(), strict=True):
            assert (link.param, link.axes) == (its.param, its.axes)
            np.testing.assert_array_equal(link.index, its.index)


def test_results_of_a_scan_are_stacked():
    params = {"w": jnp.ones((2, 3, 4)), "a": jnp.ones((2, 4, 5)), "c": jnp.ones((5, 2))}

    def apply(params, x):
        _, branches = jax.lax.scan(lambda x, w: (x, jnp.tanh(x @ w)), x, params["w"])
        return jnp.tanh(jnp.einsum("nbi,nij->bj", branches, params["a"])) @ params["c"]

    x = jax.random.normal(jax.random.key(0), (2, 3))
    graph = trace_units(apply, params, x)
    assert [r[:2] for r in rows(graph)] == [("w", 4), ("w#2", 4), ("a", 5)]
    check_units(apply, graph, params, x)


def test_flax_scan_over_residual_blocks():
    class Block(nn.Module):
        @nn.compact
        def __call__(self, x, _):
            return x + nn.Dense(4, name="down")(
                nn.tanh(nn.Dense(6, name="up")(nn.LayerNorm(name="norm")(x)))
            ), None

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            blocks = nn.scan(
                nn.remat(Block), variable_axes={"params": 0}, split_rngs={"params": True}, length=3
            )
            x, _ = blocks(name="blocks")(nn.Dense(4, name="embed")(x), None)
            return nn.Dense(2, name="out")(x)

    apply, params, x = linen(Net(), 3)
    graph = trace_units(apply, params, x)
    up = "params/blocks/up/kernel"
    assert [layer.size for layer in graph.layers] == [4, 6, 6, 6]
    assert graph.names == ("params/embed/kernel", up, f"{up}#2", f"{up}#3")
    assert rows(graph)[0][2] == {"params/embed/kernel", "params/blocks/down/kernel"}
    assert rows(graph)[0][4] == {up, "params/out/kernel"}
    assert graph.untraced == ()
    check_units(apply, graph, params, x, statistics=True)
