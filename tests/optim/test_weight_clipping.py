"""Weight clipping against its authors' program.

The arrays in golden/weight_clipping.npz come from `WeightClippingSGD` and `WeightClippingAdam` of
core/optim/weight_clipping.py in github.com/mohmdelsayed/weight-clipping (commit 0d3db49 of October
2024), run in PyTorch in float64: a conv layer and two dense layers with PyTorch's initial weights,
four steps with given gradients, κ (their zeta) of 1, 1.5 and 0.5, with and without the last layer.
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
    UnitGraph,
    WeightClipping,
    attach_reset_method,
    sequential_units,
)
from tests.optim import rollouts
from tests.optim.rollouts import assert_equal, jit

LAYERS = ("conv", "hidden", "head")
NAMES = [f"{layer}.{leaf}" for layer in LAYERS for leaf in ("weight", "bias")]


@pytest.mark.parametrize("case", [0, 1, 2])
def test_golden(case, golden, close):
    g = golden("weight_clipping")
    name = str(g["cases"][case])
    optimizer, clip_output = name.split("_")
    params = rollouts.torch_tree(g, NAMES)
    graph = sequential_units(
        params, [f"{x}/weight" for x in LAYERS], layout="out_in", flatten="channels_first"
    )
    method = WeightClipping(float(g["zeta"][case]), "fan_in", clip_output == "1")
    inner = optax.sgd(0.3) if optimizer == "SGD" else optax.adam(0.2)
    tx = attach_reset_method(tx=inner, reset_method=method, units=graph)
    grads = rollouts.torch_steps(g, NAMES, "grad_{}_{}")
    after = jit(functools.partial(rollouts.history, tx))(params, grads)
    expected = rollouts.torch_steps(g, NAMES, f"{name}_{{}}_after_{{}}")
    jax.tree.map(close, after, expected)
    assert g[f"{name}_3_share"] > 0.1  # a good part of the weights was clipped


def clipped(params, moved, method, graph=None):
    """Parameters after a step of training that began at `params` has led to `moved`."""
    return jit(functools.partial(step, graph=graph))(params, moved, method)


def step(params, moved, method, graph=None):
    tx = attach_reset_method(tx=optax.sgd(1.0), reset_method=method, units=graph)
    steps = jax.tree.map(lambda p, q: p - q, params, moved)
    updates, _ = tx.update(steps, tx.init(params), params)
    return optax.apply_updates(params, updates)


compiled = jit(step)


def test_the_bound_of_the_initial_distribution_by_hand():
    # The standard deviation is 1/2, which a uniform distribution on ±√3/2 has; 1/√fan_in is 1/√4.
    half = jnp.array([[0.5, -0.5]] * 4)
    params = {"a": {"kernel": half, "bias": jnp.zeros(2)}}
    moved = {"a": {"kernel": half + 2, "bias": jnp.array([-2.0, 0.1])}}
    after = clipped(params, moved, WeightClipping(2.0))
    np.testing.assert_allclose(after["a"]["kernel"], [[np.sqrt(3), 1.5]] * 4, rtol=1e-6)
    np.testing.assert_allclose(after["a"]["bias"], [-np.sqrt(3), 0.1], rtol=1e-6)
    after = clipped(params, moved, WeightClipping(2.0, "fan_in"))
    np.testing.assert_allclose(after["a"]["kernel"], [[1.0, 1.0]] * 4, rtol=1e-6)
    np.testing.assert_allclose(after["a"]["bias"], [-1.0, 0.1], rtol=1e-6)


def test_a_layer_that_begins_near_zero_can_grow():
    params = {"kernel": jnp.zeros((4, 3)), "bias": jnp.zeros(3)}
    moved = jax.tree.map(lambda p: p + 9, params)
    after = clipped(params, moved, WeightClipping(1.5))
    assert_equal(after, jax.tree.map(lambda p: jnp.full_like(p, 0.75), params))


def test_a_normal_distribution_has_its_deviation_as_bound():
    rng = np.random.default_rng(0)
    params = {"kernel": jnp.asarray(0.3 * rng.normal(size=(100, 50)), jnp.float32)}
    after = clipped(params, {"kernel": params["kernel"] + 5}, WeightClipping(1.0))
    np.testing.assert_allclose(after["kernel"], 0.3 * np.sqrt(3), rtol=0.03)


def test_copies_of_an_ensemble_have_their_own_bounds():
    first = np.array([[1.0, -1.0], [-1.0, 1.0]])
    params = {"kernel": jnp.stack([first, 10 * first]), "bias": jnp.zeros((2, 2))}
    kernel = Kernel("kernel", (1,), (2,), copies=(0,), bias="bias")
    shapes = {k: v.shape for k, v in params.items()}
    graph = UnitGraph((), (kernel,), shapes, jax.tree.structure(params))
    after = clipped(params, jax.tree.map(lambda p: p + 99, params), WeightClipping(1.0), graph)
    for leaf in after.values():
        np.testing.assert_allclose(leaf[0], np.sqrt(3), rtol=1e-5)
        np.testing.assert_allclose(leaf[1], 10 * np.sqrt(3), rtol=1e-5)


@hypothesis.given(st.floats(0.1, 3.0), st.integers(0, 99))
@hypothesis.settings(max_examples=8)
def test_no_entry_leaves_its_bounds_and_those_within_keep_the_inner_update(kappa, seed):
    params, moved = rollouts.network(seed), rollouts.network(seed + 1)
    after = jax.tree.map(np.asarray, compiled(params, moved, WeightClipping(kappa)))
    params, moved = jax.tree.map(np.asarray, (params, moved))
    inner = jax.tree.map(lambda p, q: p + (q - p), params, moved)
    for layer, new in after.items():
        kernel = params[layer]["kernel"]
        bound = max(np.sqrt(3) * kernel.std(), 1 / np.sqrt(kernel.shape[0])) * kappa
        for leaf in ("kernel", "bias"):
            assert (np.abs(new[leaf]) <= bound * (1 + 1e-5) + 1e-6).all()
            within = np.abs(moved[layer][leaf]) < bound * (1 - 1e-5)
            np.testing.assert_array_equal(new[leaf][within], inner[layer][leaf][within])


@pytest.mark.parametrize("clip_output", [True, False])
def test_the_output_layer(clip_output):
    params = rollouts.network()
    moved = jax.tree.map(lambda p: p + 99, params)
    after = clipped(params, moved, WeightClipping(1.0, clip_output=clip_output))
    assert (after["layer_1"]["kernel"] < 2).all()
    assert (after[rollouts.HEAD]["kernel"] < 2).all() == clip_output
    assert (after[rollouts.HEAD]["bias"] < 2).all() == clip_output


def test_a_wide_bound_changes_nothing():
    _, state = rollouts.bare()
    params = rollouts.network()
    tx = attach_reset_method(tx=rollouts.inner(), reset_method=WeightClipping(1e6))
    new, wide = rollouts.run(tx, params, rollouts.stream(params))
    assert_equal(new, rollouts.bare()[0])
    assert_equal(wide.inner.inner, state)


def test_lanes_with_other_numbers():
    params, moved = rollouts.network(), rollouts.network(1)
    lanes = jit(jax.vmap(lambda kappa: step(params, moved, WeightClipping(kappa))))
    found = lanes(np.array([0.2, 0.8]))
    for i, kappa in enumerate((0.2, 0.8)):
        single = compiled(params, moved, WeightClipping(kappa))
        rollouts.assert_close(jax.tree.map(lambda x, i=i: x[i], found), single)


def test_bad_options():
    with pytest.raises(ValueError, match="kappa must be at least 0, got -1"):
        WeightClipping(-1)
    with pytest.raises(ValueError, match="bound must be 'initial' or 'fan_in', got 'normal'"):
        WeightClipping(bound="normal")
