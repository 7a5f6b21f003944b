"""Parseval regularization against its authors' program.

The arrays in golden/parseval.npz come from the function `parseval_reg_network` in
parseval_reg/agent.py of github.com/wechu/parseval_reg (commit e861c30 of February 2025), taken out
of their training loop by its lines and run in PyTorch in float64, with the factor that their loss
has around it: two hidden layers of 6 units, four steps of Adam (0.02) with given gradients, once
with their default gain √2 and once with a gain of 1.
"""

import functools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.optim import (
    Kernel,
    Layer,
    Link,
    Parseval,
    UnitGraph,
    attach_reset_method,
    sequential_units,
)
from tests.optim import rollouts
from tests.optim.rollouts import HEAD, assert_close, assert_equal, jit

LAYERS = ("linear_orthog_1", "linear_orthog_2", "linear_output")
NAMES = [f"{layer}.{leaf}" for layer in LAYERS for leaf in ("weight", "bias")]


@pytest.mark.parametrize(("gain", "scale"), [("None", 2.0), ("1.0", 1.0)])
def test_golden(gain, scale, golden, close):
    g = golden("parseval")
    params = rollouts.torch_tree(g, NAMES)
    graph = sequential_units(params, [f"{x}/weight" for x in LAYERS], layout="out_in")
    # Their loss multiplies the coefficient by (64 / width)².
    method = Parseval(float(g["parseval_reg"] * (64 / g["width"]) ** 2), scale)
    tx = attach_reset_method(tx=optax.adam(0.02), reset_method=method, units=graph)
    after = jit(functools.partial(rollouts.history, tx))(
        params, rollouts.torch_steps(g, NAMES, "grad_{}_{}")
    )
    jax.tree.map(close, after, rollouts.torch_steps(g, NAMES, f"gain{gain}_{{}}_after_{{}}"))


def penalty_gradients(params, method, graph=None):
    """The gradients that the method adds."""
    tx = attach_reset_method(tx=optax.sgd(1.0), reset_method=method, units=graph)
    updates, _ = tx.update(optax.tree.zeros_like(params), tx.init(params), params)
    return jax.tree.map(jnp.negative, updates)


compiled = jit(penalty_gradients)


def changes(params, strength=0.1, scale=2.0):
    return compiled(params, Parseval(strength, scale))


def test_a_gradient_by_hand():
    # One unit with the row (3, 4): the excess is 25 − 2, the gradient 4 · 0.1 · 23 · (3, 4).
    params = {"a": {"kernel": jnp.array([[3.0], [4.0]])}, "b": {"kernel": jnp.ones((1, 3))}}
    found = changes(params)
    np.testing.assert_allclose(found["a"]["kernel"], [[27.6], [36.8]], rtol=1e-6)
    np.testing.assert_array_equal(found["b"]["kernel"], 0)


def penalty(kernels, scale):
    """The penalty as the paper writes it, for kernels [inputs, outputs]."""
    gram = [w.T @ w - scale * jnp.eye(w.shape[1]) for w in kernels]
    return sum(jnp.sum(jnp.square(excess)) for excess in gram)


slopes = jit(jax.grad(penalty))


@hypothesis.given(st.floats(0.0, 1.0), st.floats(0.0, 3.0), st.integers(0, 99))
@hypothesis.settings(max_examples=8)
def test_it_is_the_gradient_of_the_penalty_of_hidden_layers_alone(strength, scale, seed):
    params = rollouts.network(seed)
    found = changes(params, strength, scale)
    kernels = [params["layer_0"]["kernel"], params["layer_1"]["kernel"]]
    for i, slope in enumerate(slopes(kernels, scale)):
        expected = strength * slope
        np.testing.assert_allclose(found[f"layer_{i}"]["kernel"], expected, rtol=1e-4, atol=1e-4)
        assert not found[f"layer_{i}"]["bias"].any()
    assert not any(leaf.any() for leaf in found[HEAD].values())


def test_orthogonal_rows_of_the_right_length_are_left_alone():
    rows = np.sqrt(2) * np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    params = rollouts.network(sizes=(6, 6, 2))
    params["layer_0"]["kernel"] = jnp.asarray(rows, jnp.float32)
    np.testing.assert_allclose(changes(params)["layer_0"]["kernel"], 0, atol=1e-5)
    assert np.abs(changes(params, scale=1.0)["layer_0"]["kernel"]).max() > 0.1


def test_a_convolution_is_a_matrix_of_its_outputs_and_a_copy_a_matrix_of_its_own():
    rng = np.random.default_rng(0)
    dense = jnp.asarray(rng.normal(size=(12, 5)), jnp.float32)  # [inputs · positions, outputs]
    params = {"v": jnp.ones((5, 2))}
    expected = changes({"a": {"kernel": dense}, "b": {"kernel": params["v"]}})["a"]["kernel"]

    def graph_of(params, kernel, axis, size):
        link = Link(kernel.param, (axis,), np.arange(size))
        reader = Link("v", (0,), np.arange(5))
        layer = Layer("w", 5, (link,), (reader,))
        shapes = {k: p.shape for k, p in params.items()}
        return UnitGraph((layer,), (kernel, Kernel("v")), shapes, jax.tree.structure(params))

    conv = params | {"w": dense.reshape(2, 2, 3, 5).transpose(3, 0, 2, 1)}  # [out, h, in, w]
    graph = graph_of(conv, Kernel("w", (2,), (0,), (1, 3)), 0, 5)
    found = jit(functools.partial(penalty_gradients, method=Parseval(0.1), graph=graph))(conv)
    back = found["w"].transpose(1, 3, 2, 0).reshape(12, 5)
    np.testing.assert_allclose(back, expected, rtol=1e-4, atol=1e-5)

    twice = params | {"w": jnp.stack([dense, 2 * dense])}
    graph = graph_of(twice, Kernel("w", (1,), (2,), (), (0,)), 2, 5)
    found = jit(functools.partial(penalty_gradients, method=Parseval(0.1), graph=graph))(twice)
    np.testing.assert_allclose(found["w"][0], expected, rtol=1e-4, atol=1e-5)
    other = changes({"a": {"kernel": 2 * dense}, "b": {"kernel": jnp.ones((5, 2))}})
    np.testing.assert_allclose(found["w"][1], other["a"]["kernel"], rtol=1e-4, atol=1e-5)


def test_lanes_with_other_numbers_and_half_precision():
    params = rollouts.network()
    methods = Parseval(np.array([0.1, 0.3]), np.array([2.0, 0.5]), key=np.zeros(2, int))
    lanes = jit(jax.vmap(penalty_gradients, (None, 0)))(params, methods)
    assert_close(jax.tree.map(lambda x: x[1], lanes), changes(params, 0.3, 0.5))
    half = jax.tree.map(lambda p: p.astype(jnp.bfloat16), params)
    expected = changes(jax.tree.map(lambda p: p.astype(jnp.float32), half))
    rounded = jax.tree.map(lambda p: p.astype(jnp.bfloat16), expected)
    assert_close(changes(half), rounded, rtol=1e-2, atol=1e-2)


def test_without_strength_nothing_changes():
    params = rollouts.network()
    tx = attach_reset_method(tx=rollouts.inner(), reset_method=Parseval(0.0))
    assert_equal(rollouts.run(tx, params, rollouts.stream(params))[0], rollouts.bare()[0])


def test_bad_options():
    with pytest.raises(ValueError, match="strength must be at least 0, got -1"):
        Parseval(-1)
    with pytest.raises(ValueError, match="scale must be at least 0, got -2"):
        Parseval(scale=-2)
