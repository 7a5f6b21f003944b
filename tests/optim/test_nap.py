"""Normalize-and-Project.

Its authors have published no program of it, so that answers here are computed by hand in NumPy.
"""

import functools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn

from continual_learning.optim import Kernel, NaP, UnitGraph, attach_reset_method, trace_units
from continual_learning.optim.every_step import hidden
from tests.optim import rollouts
from tests.optim.rollouts import HEAD, assert_equal, jit


def moved_by(method, params, steps, units=None):
    """Parameters after a step that adds `steps`."""
    tx = attach_reset_method(tx=optax.sgd(1.0), reset_method=method, units=units)
    updates, _ = tx.update(jax.tree.map(jnp.negative, steps), tx.init(params), params)
    return optax.apply_updates(params, updates)


plain = jit(functools.partial(moved_by, NaP()))


def test_steps_by_hand(precision):
    params = rollouts.network(dtype=precision)
    grads, _ = rollouts.stream(params)
    tx = attach_reset_method(tx=optax.sgd(0.1), reset_method=NaP())
    after = jit(functools.partial(rollouts.history, tx))(params, grads)
    tolerance = 1e-9 if precision == "float64" else 1e-4
    for layer, start in params.items():
        w, b = (np.asarray(start[leaf], np.float64) for leaf in ("kernel", "bias"))
        norm = np.sqrt((w**2).sum())
        for t in range(rollouts.STEPS):
            w = w - 0.1 * np.asarray(grads[layer]["kernel"][t], np.float64)
            b = b - 0.1 * np.asarray(grads[layer]["bias"][t], np.float64)
            if layer != HEAD:
                w = w * norm / np.sqrt((w**2).sum())
            np.testing.assert_allclose(after[layer]["kernel"][t], w, tolerance, tolerance)
            np.testing.assert_allclose(after[layer]["bias"][t], b, tolerance, tolerance)


@hypothesis.given(st.integers(0, 99), st.floats(0.01, 100.0))
@hypothesis.settings(max_examples=8)
def test_norms_stay_and_directions_are_those_of_the_inner_step(seed, size):
    params = rollouts.network(seed)
    steps = jax.tree.map(lambda p: p * jnp.float32(size), rollouts.network(seed + 1))
    new, inner = plain(params, steps), optax.apply_updates(params, steps)
    for layer in ("layer_0", "layer_1"):
        norm = np.linalg.norm(params[layer]["kernel"])
        np.testing.assert_allclose(np.linalg.norm(new[layer]["kernel"]), norm, rtol=1e-4)
        wanted = inner[layer]["kernel"] / np.linalg.norm(inner[layer]["kernel"])
        np.testing.assert_allclose(new[layer]["kernel"] / norm, wanted, atol=1e-4)
        np.testing.assert_array_equal(new[layer]["bias"], inner[layer]["bias"])
    assert_equal(new[HEAD], inner[HEAD])


def test_the_output_layer_if_wanted():
    params = rollouts.network()
    steps = jax.tree.map(jnp.ones_like, params)
    new = jit(functools.partial(moved_by, NaP(project_output=True)))(params, steps)
    norms = [np.linalg.norm(p[HEAD]["kernel"]) for p in (new, params)]
    np.testing.assert_allclose(*norms, rtol=1e-5)
    assert_equal(new["layer_0"], plain(params, steps)["layer_0"])


def test_a_kernel_that_began_as_zeros_is_left_alone():
    params = rollouts.network()
    params["layer_0"] = optax.tree.zeros_like(params["layer_0"])
    steps = jax.tree.map(jnp.ones_like, params)
    np.testing.assert_array_equal(plain(params, steps)["layer_0"]["kernel"], 1)
    # A kernel that an inner step makes zero has no direction; it stays zero, without NaN.
    params = rollouts.network()
    steps = jax.tree.map(jnp.negative, params)
    np.testing.assert_array_equal(plain(params, steps)["layer_1"]["kernel"], 0)


def test_nothing_changes_where_the_inner_optimizer_does_nothing():
    params = rollouts.network()
    new = plain(params, optax.tree.zeros_like(params))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), new, params)


def test_copies_of_an_ensemble_have_their_own_norms():
    params = {"kernel": jnp.stack([jnp.ones((2, 2)), jnp.full((2, 2), 10.0)])}
    kernel = Kernel("kernel", (1,), (2,), copies=(0,))
    graph = UnitGraph((), (kernel,), {"kernel": (2, 2, 2)}, jax.tree.structure(params))
    steps = {"kernel": jnp.full((2, 2, 2), 5.0)}
    new = jit(functools.partial(moved_by, NaP(project_output=True), units=graph))(params, steps)
    np.testing.assert_allclose(new["kernel"], params["kernel"], rtol=1e-5)


class Normed(nn.Module):
    @nn.compact
    def __call__(self, x):
        for size in (3, 4):
            x = nn.relu(nn.LayerNorm()(nn.Dense(size, use_bias=False)(x)))
        return nn.Dense(2)(x)


MODEL, X = Normed(), jnp.asarray(np.random.default_rng(0).normal(size=(5, 6)), jnp.float32)


def apply(params, x):
    return MODEL.apply({"params": params}, x)


@functools.cache
def normed():
    params = jit(MODEL.init)(jax.random.key(0), X)["params"]
    return params, trace_units(apply, params, X)


@pytest.mark.parametrize("scale_offset", ["project", "free"])
def test_scales_and_offsets_of_a_norm_share_a_norm(scale_offset):
    params, graph = normed()
    steps = jax.tree.map(lambda p: jnp.full_like(p, 0.75), params)
    steps["LayerNorm_0"]["bias"] = jnp.array([0.0, 3.0, -1.0])
    method = NaP(scale_offset)
    new = jit(functools.partial(moved_by, method, units=graph))(params, steps)
    scale, offset = np.full(3, 1.75), np.array([0.0, 3.0, -1.0])
    factor = np.sqrt(3 / (3 * 1.75**2 + 10)) if scale_offset == "project" else 1
    np.testing.assert_allclose(new["LayerNorm_0"]["scale"], factor * scale, rtol=1e-5)
    np.testing.assert_allclose(new["LayerNorm_0"]["bias"], factor * offset, rtol=1e-5)
    factor = np.sqrt(1 / (1.75**2 + 0.75**2)) if scale_offset == "project" else 1
    np.testing.assert_allclose(new["LayerNorm_1"]["scale"], factor * 1.75, rtol=1e-5)
    np.testing.assert_allclose(new["LayerNorm_1"]["bias"], factor * 0.75, rtol=1e-5)


class Attends(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.MultiHeadDotProductAttention(2, use_bias=False)(nn.Dense(4, use_bias=False)(x))
        return nn.Dense(2, use_bias=False)(x)


def test_queries_and_keys_are_hidden_layers_though_they_have_no_units():
    model, x = Attends(), jnp.ones((1, 3, 5))
    params = jax.eval_shape(model.init, jax.random.key(0), x)["params"]
    graph = trace_units(lambda p, x: model.apply({"params": p}, x), params, x)
    found = {kernel.param for kernel in hidden(graph)}
    attention = {f"MultiHeadDotProductAttention_0/{n}/kernel" for n in ("query", "key", "value")}
    assert {"Dense_0/kernel"} | attention <= found
    assert "Dense_1/kernel" not in found


def test_projected_kernels_before_norms_do_not_change_the_network():
    params, graph = normed()
    steps = jax.tree.map(lambda p: jnp.sin(jnp.arange(p.size, dtype=p.dtype)), params)
    steps = jax.tree.map(lambda s, p: s.reshape(p.shape), steps, params)
    new = jit(functools.partial(moved_by, NaP("free"), units=graph))(params, steps)
    inner = optax.apply_updates(params, steps)
    outputs = [jit(apply)(p, 10 * X) for p in (new, inner)]
    np.testing.assert_allclose(*outputs, rtol=1e-3, atol=1e-3)
    assert not np.allclose(new["Dense_0"]["kernel"], inner["Dense_0"]["kernel"], rtol=0.1)


def test_bad_options():
    with pytest.raises(ValueError, match="scale_offset must be 'project' or 'free', got 'decay'"):
        NaP("decay")
