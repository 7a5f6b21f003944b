"""The data structure: masks, several producers and readers, index mappings, checks."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.optim import CPR, Kernel, Layer, Link, UnitGraph, attach_reset_method
from continual_learning.optim.fresh import draw
from continual_learning.optim.rewrite import reset_units, transferred_bias
from continual_learning.optim.scores import gradient_magnitude
from continual_learning.optim.sequential import sequential_units
from continual_learning.optim.trees import arrays


@pytest.fixture
def residual():
    """x = A·in; h = W1·x; x = x + W2·h; out = B·x: x has two producers and two readers."""
    params = {
        "a": jnp.ones((2, 3)),
        "b": jnp.ones((3, 1)),
        "w1": jnp.ones((3, 4)),
        "w2": jnp.ones((4, 3)),
    }
    three, four = np.arange(3), np.arange(4)
    layers = (
        Layer(
            "a",
            3,
            incoming=(Link("a", (1,), three), Link("w2", (1,), three)),
            outgoing=(Link("w1", (0,), three), Link("b", (0,), three)),
        ),
        Layer("w1", 4, incoming=(Link("w1", (1,), four),), outgoing=(Link("w2", (0,), four),)),
    )
    shapes = {k: v.shape for k, v in params.items()}
    kernels = tuple(Kernel(k) for k in ("a", "w1", "w2", "b"))
    return params, UnitGraph(layers, kernels, shapes, jax.tree.structure(params))


def test_masks_of_a_chain(mlp):
    params = mlp((5, 6, 7, 3))
    graph = sequential_units(params, [f"layer_{i}/kernel" for i in range(3)])
    assert [(layer.name, layer.size) for layer in graph.layers] == [
        ("layer_0/kernel", 6),
        ("layer_1/kernel", 7),
    ]
    units = {"layer_0/kernel": np.arange(6) == 2}
    incoming, bias, outgoing = graph.incoming(units), graph.bias(units), graph.outgoing(units)
    for tree in (incoming, bias, outgoing):
        assert jax.tree.structure(tree) == jax.tree.structure(params)
        assert jax.tree.map(jnp.shape, tree) == jax.tree.map(jnp.shape, params)
    expected = np.zeros((5, 6), bool)
    expected[:, 2] = True
    np.testing.assert_array_equal(incoming["layer_0"]["kernel"], expected)
    np.testing.assert_array_equal(bias["layer_0"]["bias"], np.arange(6) == 2)
    np.testing.assert_array_equal(outgoing["layer_1"]["kernel"][2], True)
    assert sum(int(m.sum()) for m in jax.tree.leaves((incoming, bias, outgoing))) == 5 + 1 + 7


def test_flatten_in_either_order():
    params = {
        "conv": {"kernel": jnp.ones((3, 3, 1, 2))},
        "dense": {"kernel": jnp.ones((6, 1))},
    }
    units = {"conv/kernel": np.array([False, True])}
    for flatten, rows in (("channels_last", [1, 3, 5]), ("channels_first", [3, 4, 5])):
        graph = sequential_units(params, ["conv/kernel", "dense/kernel"], flatten=flatten)
        mask = graph.outgoing(units)["dense"]["kernel"]
        np.testing.assert_array_equal(np.flatnonzero(mask), rows)


def test_several_producers_and_readers(residual):
    params, graph = residual
    units = {"a": np.array([True, False, False])}
    incoming, outgoing = graph.incoming(units), graph.outgoing(units)
    assert incoming["a"][:, 0].all() and incoming["w2"][:, 0].all()
    assert outgoing["w1"][0].all() and outgoing["b"][0].all()
    assert sum(int(m.sum()) for m in jax.tree.leaves((incoming, outgoing))) == 2 + 4 + 4 + 1
    # Scored by the mean over all its incoming entries: 2 of |1| and 4 of |4|.
    grads = {"a": jnp.ones((2, 3)), "w2": jnp.full((4, 3), -4.0), "w1": jnp.ones((3, 4))}
    score = gradient_magnitude(graph, grads, jnp.float32)
    np.testing.assert_allclose(score, [[3, 3, 3, 0], [1, 1, 1, 1]])
    # Shrink first, then mix, whatever the order of the layers: w2 is outgoing of the second layer
    # and incoming of the first.
    reset = jnp.array([[0.5, 0, 0, 0], [0.25, 0, 0, 0]])
    fresh = {k: jnp.full(params[k].shape, 3.0) for k in ("a", "w1", "w2")}
    new = reset_units(graph, params, reset, fresh)
    np.testing.assert_allclose(new["w2"][0], [0.5 * 0.75 + 1.5, 0.75, 0.75])
    np.testing.assert_allclose(new["w2"][1], [0.5 + 1.5, 1, 1])
    np.testing.assert_allclose(new["w1"][0], [0.75 * 0.5 + 0.75, 0.5, 0.5, 0.5])
    np.testing.assert_allclose(new["b"][:, 0], [0.5, 1, 1])


def test_the_optimizer_takes_such_a_graph(residual):
    params, graph = residual
    for units in (graph, lambda params: graph):
        tx = attach_reset_method(
            tx=optax.sgd(0.0), reset_method=CPR(max_reset=0.5, every=1), units=units
        )
        state = tx.init(params)
        for _ in range(2):
            updates, state = tx.update(jax.tree.map(jnp.ones_like, params), state, params)
        np.testing.assert_allclose(updates["b"], -0.5)


@pytest.fixture
def ensemble():
    """Two copies of 3 → 4 → 2 in one tree, kernels stored [copy, out, in]."""
    params = {"k0": jnp.zeros((2, 4, 3)), "b0": jnp.zeros((2, 4)), "k1": jnp.zeros((2, 2, 4))}
    units = np.arange(8).reshape(2, 4)
    layer = Layer(
        "k0",
        8,
        incoming=(Link("k0", (0, 1), units),),
        bias=(Link("b0", (0, 1), units),),
        outgoing=(Link("k1", (0, 2), units),),
    )
    kernels = (
        Kernel("k0", inputs=(2,), outputs=(1,), copies=(0,), bias="b0"),
        Kernel("k1", inputs=(2,), outputs=(1,), copies=(0,)),
    )
    shapes = {k: v.shape for k, v in params.items()}
    return params, UnitGraph((layer,), kernels, shapes, jax.tree.structure(params))


def test_an_ensemble_has_units_of_its_own(ensemble):
    _, graph = ensemble
    mask = graph.incoming({"k0": np.arange(8) == 5})["k0"]
    assert mask[1, 1].all() and mask.sum() == 3
    grads = {"k0": jnp.arange(24.0).reshape(2, 4, 3)}
    score = gradient_magnitude(graph, grads, jnp.float32)
    np.testing.assert_allclose(score[0], grads["k0"].mean(-1).ravel())


def test_draws_follow_the_layout(ensemble):
    params, graph = ensemble
    called = []

    def init(key, shape, dtype):
        called.append(shape)
        return jax.random.normal(key, shape, dtype) + 10 * jnp.arange(shape[0])[:, None]

    fresh = draw(graph, params, ["k0"], jax.random.key(0), init, jnp.ones(2))
    assert called == [(3, 4)]  # [in, out], one copy at a time
    assert fresh["k0"].shape == (2, 4, 3)
    np.testing.assert_allclose(fresh["k0"].mean((0, 1)), [0, 10, 20], atol=2)
    assert not np.allclose(fresh["k0"][0], fresh["k0"][1])

    conv = {"conv": {"kernel": jnp.zeros((8, 5, 3, 2))}, "out": {"kernel": jnp.zeros((1, 8))}}
    graph = sequential_units(conv, ["conv/kernel", "out/kernel"], layout="out_in")
    called.clear()

    def hwio(key, shape, dtype):
        called.append(shape)
        return jnp.arange(np.prod(shape), dtype=dtype).reshape(shape)

    fresh = draw(graph, arrays(conv), ["conv/kernel"], jax.random.key(0), hwio, jnp.ones(2))
    assert called == [(3, 2, 5, 8)]
    expected = np.arange(240.0).reshape(3, 2, 5, 8).transpose(3, 2, 0, 1)
    np.testing.assert_array_equal(fresh["conv/kernel"], expected)


def test_bias_transfer_through_a_stored_transposed_ensemble(ensemble):
    params, graph = ensemble
    params = {**params, "k1": jnp.arange(16.0).reshape(2, 2, 4), "b1": jnp.zeros((2, 2))}
    kernels = (graph.kernels[0], dataclasses.replace(graph.kernels[1], bias="b1"))
    shapes = {k: v.shape for k, v in params.items()}
    graph = dataclasses.replace(graph, kernels=kernels, shapes=shapes)
    contribution = jnp.zeros((1, 8)).at[0, 5].set(2.0)  # unit 1 of copy 1
    moved = transferred_bias(graph, params, contribution)
    np.testing.assert_allclose(moved["b1"], [[0, 0], [2 * 9.0, 2 * 13.0]])


def test_a_slice_may_belong_to_no_unit():
    """A concatenation: the first two rows read the layer, the third reads a skip input."""
    params = {"a": jnp.ones((1, 2)), "b": jnp.ones((3, 1))}
    layer = Layer(
        "a", 2, (Link("a", (1,), np.arange(2)),), (Link("b", (0,), np.array([0, 1, -1])),)
    )
    graph = UnitGraph(
        (layer,),
        (Kernel("a"), Kernel("b")),
        {"a": (1, 2), "b": (3, 1)},
        jax.tree.structure(params),
    )
    mask = graph.outgoing({"a": np.array([True, True])})["b"]
    np.testing.assert_array_equal(mask[:, 0], [True, True, False])
    new = reset_units(graph, params, jnp.ones((1, 2)), {"a": jnp.zeros((1, 2))})
    np.testing.assert_array_equal(new["b"][:, 0], [0, 0, 1])


def test_the_table(residual):
    _, graph = residual
    text = str(dataclasses.replace(graph, untraced=(("attention", "a product of activations"),)))
    lines = text.splitlines()
    assert lines[0].split() == ["layer", "units", "incoming", "bias", "and", "norm", "outgoing"]
    assert lines[2].split() == ["a", "3", "a,", "w2", "-", "w1,", "b"]
    assert "hidden units: 7" in lines
    assert lines[-2:] == ["untraced:", "  attention  a product of activations"]


def test_bad_graphs_and_bad_questions(residual, mlp):
    params, graph = residual
    with pytest.raises(ValueError, match=r"unknown layers \['c'\].*Layers of this network: \['a'"):
        graph.incoming({"c": np.ones(3, bool)})
    with pytest.raises(ValueError, match=r"units\['a'\] must be bool \[3\], got float"):
        graph.incoming({"a": np.ones(3)})
    with pytest.raises(ValueError, match="refers to 'z', which is not a parameter"):
        dataclasses.replace(graph, layers=(Layer("z", 3, (Link("z", (1,), np.arange(3)),), ()),))
    with pytest.raises(ValueError, match="does not fit 'a' of shape"):
        dataclasses.replace(graph, layers=(Layer("a", 2, (Link("a", (1,), np.arange(2)),), ()),))
    with pytest.raises(ValueError, match=r"must lie in \[-1, 1\]"):
        dataclasses.replace(graph, layers=(Layer("a", 2, (Link("a", (1,), np.arange(3)),), ()),))
    with pytest.raises(ValueError, match="axes must increase"):
        Link("a", (1, 0), np.zeros((3, 2), int))
    with pytest.raises(ValueError, match="made for another model"):
        graph.check(mlp())
    with pytest.raises(ValueError, match=r"a: graph \(2, 3\), params \(2, 4\)"):
        graph.check({**params, "a": jnp.ones((2, 4))})
    graph.check(params)


def test_layers_of_equal_shape_are_scored_like_any_other(mlp):
    """They are reduced together; the scores are those of each layer alone."""
    params = mlp((4, 4, 4, 4, 6, 2))
    graph = sequential_units(params, [f"layer_{i}/kernel" for i in range(5)])
    grads = jax.tree.map(lambda w: w.at[0].set(jnp.nan) if w.shape == (4, 6) else w, params)
    score = graph.unpack(gradient_magnitude(graph, arrays(grads), jnp.float32))
    for i in range(4):
        expected = jnp.abs(grads[f"layer_{i}"]["kernel"]).mean(0)
        np.testing.assert_allclose(score[f"layer_{i}/kernel"], expected, rtol=1e-6)


def test_two_parameters_of_one_path_are_refused():
    with pytest.raises(ValueError, match="Several parameters have the path 'a/b'"):
        arrays({"a/b": jnp.ones(2), "a": {"b": jnp.ones(2)}})


def test_a_producer_of_the_first_units_only():
    """x = [input, W0·input] + W1·…: the one unit of W0 is the first of the layer's four."""
    params = {"w0": jnp.ones((3, 1)), "w1": jnp.ones((4, 4)), "out": jnp.ones((4, 2))}
    layer = Layer(
        "w0",
        4,
        incoming=(Link("w0", (1,), np.array([0])), Link("w1", (1,), np.array([1, 2, 3, 0]))),
        outgoing=(Link("out", (0,), np.array([1, 2, 3, 0])),),
    )
    shapes = {k: v.shape for k, v in params.items()}
    kernels = (Kernel("w0"), Kernel("w1"), Kernel("out"))
    graph = UnitGraph((layer,), kernels, shapes, jax.tree.structure(params))
    mask = graph.incoming({"w0": np.arange(4) == 0})
    assert mask["w0"].all() and mask["w1"][:, 3].all() and mask["w1"].sum() == 4
    grads = {"w0": jnp.full((3, 1), 2.0), "w1": jnp.arange(16.0).reshape(4, 4)}
    score = gradient_magnitude(graph, grads, jnp.float32)
    np.testing.assert_allclose(score[0], [(6 + 36) / 7, 24 / 4, 28 / 4, 32 / 4])
