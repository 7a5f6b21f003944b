"""FIRE against its authors' program.

tests/golden/fire.npz comes from isaac7778/FIRE at commit c37a0ac: `fire` of
vision/interventions/fire.py, in float64, on a torch network of a convolution and three dense layers
(kernels [out, in], more outputs than inputs and fewer). It acts on the initial weights with 10
iterations ("old", "new0"), and on the result with noise added with 5 ("old1", "new1").
"""

import dataclasses
import functools

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import strategies as st

from continual_learning.optim import FIRE, Kernel, UnitGraph, attach_reset_method, sequential_units
from tests.optim.rollouts import assert_close, fresh, inner, jit, network, rollout, stream

NAMES = ("conv", "a", "b", "c")


def layers(g, prefix, layout):
    def kernel(w):
        if layout == "in_out":
            w = w.transpose(2, 3, 1, 0) if w.ndim == 4 else w.T
        return jnp.asarray(w)

    return {n: {"kernel": kernel(g[f"{prefix}_{n}"]), "bias": jnp.asarray(g[f"bias_{n}"])}
            for n in NAMES}  # fmt: skip


@pytest.mark.parametrize("layout", ["in_out", "out_in"])
def test_golden(layout, golden, close):
    g = golden("fire")
    params = layers(g, "old", layout)
    graph = sequential_units(
        params, [f"{n}/kernel" for n in NAMES], layout=layout, flatten="channels_first"
    )

    @jit
    def act(params, iterations):
        method = dataclasses.replace(FIRE(init=fresh), iterations=iterations)
        tx = attach_reset_method(tx=optax.sgd(0.0), reset_method=method, units=graph)
        updates, _ = tx.update(params, tx.init(params), params, task=1)
        return optax.apply_updates(params, updates)

    for i, before in enumerate(("old", "old1")):
        new = act(layers(g, before, layout), int(g["iterations"][i]))
        jax.tree.map(close, new, layers(g, f"new{i}", layout))


def act(method, params, graph=None, moments=None):
    """One act with an inner optimizer that does nothing, and the moments after it."""
    tx = attach_reset_method(
        tx=optax.chain(optax.trace(1.0), optax.scale(0.0)), reset_method=method, units=graph
    )
    state = tx.init(params)
    if moments is not None:
        state = state._replace(inner=(state.inner[0]._replace(trace=moments), *state.inner[1:]))
    updates, state = tx.update(optax.tree.zeros_like(params), state, params, task=1)
    return optax.apply_updates(params, updates), state


@functools.cache
def act_on(rows, columns):
    def run(w, iterations):
        method = dataclasses.replace(FIRE(init=fresh), iterations=iterations)
        return act(method, {"kernel": w})[0]["kernel"]

    return jit(run)


def matrix(rows, columns, seed):
    """A matrix whose singular values lie in [1, 2], which few iterations make an isometry."""
    rng = np.random.default_rng(seed)
    u, _, v = np.linalg.svd(rng.normal(size=(rows, columns)), full_matrices=False)
    return np.float32((u * rng.uniform(1, 2, min(rows, columns))) @ v), u @ v


@hypothesis.settings(max_examples=12)
@hypothesis.given(
    st.sampled_from([(3, 5), (5, 3), (4, 4)]), st.integers(0, 99), st.floats(1e-3, 1e3)
)
def test_a_kernel_becomes_the_nearest_isometry_whatever_its_size(shape, seed, size):
    w, nearest = matrix(*shape, seed)
    expected = np.sqrt(shape[1] / shape[0]) * nearest
    new = act_on(*shape)(np.float32(size) * w, 12)
    np.testing.assert_allclose(new, expected, atol=1e-4)
    np.testing.assert_allclose(act_on(*shape)(new, 12), expected, atol=1e-4)  # and stays one


def test_steps_by_hand_and_a_kernel_of_zeros():
    w = np.float32([[3, 0], [0, 4]])
    x = w / 5
    np.testing.assert_allclose(act_on(2, 2)(w, 0), x, rtol=1e-6)
    x = np.diag([1.5 * 0.6 - 0.5 * 0.6**3, 1.5 * 0.8 - 0.5 * 0.8**3])
    np.testing.assert_allclose(act_on(2, 2)(w, 1), x, rtol=1e-6)
    np.testing.assert_array_equal(act_on(2, 2)(0 * w, 10), 0)


def test_copies_of_a_kernel_are_isometries_of_their_own():
    pairs = [matrix(4, 3, seed) for seed in range(2)]
    # [copies, outputs, inputs in two axes]: the axes of a kernel may lie in any order.
    w = jnp.stack([w for w, _ in pairs]).transpose(0, 2, 1).reshape(2, 3, 2, 2)
    params = {"w": w}
    kernel = Kernel("w", inputs=(2, 3), outputs=(1,), copies=(0,))
    graph = UnitGraph((), (kernel,), {"w": w.shape}, jax.tree.structure(params))
    new, _ = jit(lambda params: act(FIRE(iterations=12, init=fresh), params, graph))(params)
    expected = np.stack([nearest.T for _, nearest in pairs]).reshape(w.shape)
    np.testing.assert_allclose(new["w"], np.sqrt(3 / 4) * expected, atol=1e-4)


@pytest.mark.parametrize("reset_moments", [True, False])
def test_biases_stay_and_moments_restart_by_an_option(reset_moments):
    params = network()
    method = FIRE(reset_moments=reset_moments, init=fresh)
    ones = jax.tree.map(jnp.ones_like, params)
    new, state = jit(lambda p: act(method, p, moments=ones))(params)
    for name, layer in params.items():
        np.testing.assert_array_equal(new[name]["bias"], layer["bias"])
        assert (new[name]["kernel"] != layer["kernel"]).all()
        np.testing.assert_array_equal(state.inner[0].trace[name]["bias"], 1)
        np.testing.assert_array_equal(state.inner[0].trace[name]["kernel"], not reset_moments)


def test_numbers_may_differ_between_lanes_and_nothing_happens_between_acts():
    params = network()
    data = stream(params)

    def run(every, iterations):
        method = dataclasses.replace(FIRE(every=1, init=fresh), every=every, iterations=iterations)
        return rollout(attach_reset_method(tx=inner(), reset_method=method), params, data)

    every, iterations = np.array([1, 2, 3, 99]), np.array([4, 10, 0, 10])
    together, single = jit(jax.vmap(run))(every, iterations), jit(run)
    for i in range(4):
        lane = jax.tree.map(lambda x, i=i: x[i], together)
        assert_close(lane, single(every[i], iterations[i]), rtol=1e-4, atol=1e-5)
    alone, _ = jit(functools.partial(rollout, optax.with_extra_args_support(inner())))(params, data)
    assert_close(jax.tree.map(lambda x: x[3], together[0]), alone)


def test_bad_arguments():
    with pytest.raises(ValueError, match="FIRE: iterations must be at least 0, got -1"):
        FIRE(iterations=-1)
