"""Spectral regularization.

No program of its authors could be found, so that answers here are computed by hand in NumPy, step
by step in float64, from the equations of the paper's Section 4.
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

from continual_learning.optim import SpectralRegularization, attach_reset_method, trace_units
from tests.optim import rollouts
from tests.optim.rollouts import assert_close, assert_equal, jit


def attached(method, tx=None, units=None):
    return attach_reset_method(tx=tx or optax.sgd(1.0), reset_method=method, units=units)


def by_hand(params, grads, probes, strength, k, rate):
    """Parameters after every step of SGD; `probes` are the vectors u, one for each layer."""
    params = {n: {m: np.asarray(w, np.float64) for m, w in p.items()} for n, p in params.items()}
    history = []
    for t in range(len(grads["layer_0"]["bias"])):
        for layer, u in probes.items():
            w, b = params[layer]["kernel"].T, params[layer]["bias"]  # w: [outputs, inputs]
            v = w.T @ u
            v /= np.linalg.norm(v)
            u = w @ v
            u /= np.linalg.norm(u)
            probes[layer], sigma = u, u @ w @ v
            slope = 2 * (sigma**k - 1) * k * sigma ** (k - 1)
            norm = np.linalg.norm(b)
            bias_slope = 2 * k * norm ** (2 * k - 1) * b / norm
            grad = grads[layer]
            params[layer] = {
                "kernel": (w - rate * (grad["kernel"][t].T + strength * slope * np.outer(u, v))).T,
                "bias": b - rate * (grad["bias"][t] + strength * bias_slope),
            }
        history.append(params | {})
    return history


@pytest.mark.parametrize("k", [1.0, 2.0, 3.0])
def test_steps_by_hand(k, precision):
    params = rollouts.network(dtype=precision)
    grads, _ = rollouts.stream(params)
    tx = attached(SpectralRegularization(0.05, k), optax.sgd(0.1))
    sizes = [layer["bias"].size for layer in params.values()]
    vectors = np.split(np.asarray(tx.init(params).inner.method, np.float64), np.cumsum(sizes)[:-1])
    after = jit(functools.partial(rollouts.history, tx))(params, grads)
    probes = dict(zip(params, vectors, strict=True))
    tolerance = {"rtol": 1e-9, "atol": 1e-11} if precision == "float64" else {"rtol": 1e-4}
    for t, expected in enumerate(by_hand(params, grads, probes, 0.05, k, 0.1)):
        found = jax.tree.map(lambda x, t=t: x[t], after)
        assert_close(found, expected, **tolerance)


def update(params, state, strength, exponent):
    tx = attached(SpectralRegularization(strength, exponent))
    return tx.update(optax.tree.zeros_like(params), state, params)


updated = jit(update)


@functools.cache
def begun():
    return jit(attached(SpectralRegularization()).init)(rollouts.network())


def converged(params, steps=150):
    """The gradients of the penalty with λ = 1 and k = 2 after many power iterations."""

    @jit
    def run(params):
        tx = attached(SpectralRegularization(1.0))
        zero = optax.tree.zeros_like(params)

        def step(state, _):
            updates, state = tx.update(zero, state, params)
            return state, updates

        return jax.lax.scan(step, tx.init(params), length=steps)[1]

    return jax.tree.map(lambda u: -u[-1], run(params))


def test_the_vector_in_the_state_finds_the_largest_singular_value():
    params = rollouts.network(3)
    for layer, found in converged(params).items():
        kernel = np.asarray(params[layer]["kernel"], np.float64)
        u, s, vt = np.linalg.svd(kernel)
        expected = 4 * (s[0] ** 2 - 1) * s[0] * np.outer(u[:, 0], vt[0])
        np.testing.assert_allclose(found["kernel"], expected, rtol=1e-3, atol=1e-3)


def test_orthogonal_kernels_without_biases_are_left_alone():
    rng = np.random.default_rng(0)
    params = {
        name: {"kernel": jnp.asarray(np.linalg.qr(rng.normal(size=(a, b)))[0], jnp.float32)}
        for name, a, b in (("a", 5, 4), ("b", 4, 2))
    }
    for layer in converged(params, 1).values():
        np.testing.assert_allclose(layer["kernel"], 0, atol=1e-5)


@hypothesis.given(st.integers(0, 99), st.floats(1.0, 4.0), st.floats(0.01, 1.0))
@hypothesis.settings(max_examples=8)
def test_one_iteration_never_sees_more_than_the_largest_singular_value(seed, k, strength):
    params = rollouts.network(seed)
    updates, state = updated(params, begun(), strength, k)
    for layer, update in updates.items():
        kernel, bias = params[layer]["kernel"], np.asarray(params[layer]["bias"])
        largest = np.linalg.norm(kernel, 2)
        change = np.linalg.svd(update["kernel"], compute_uv=False)
        np.testing.assert_allclose(change[1:], 0, atol=1e-4 * change[0] + 1e-6)  # of rank 1
        limit = max(2 * k * abs(largest**k - 1) * largest ** (k - 1), 2 * k)
        assert change[0] <= strength * limit * (1 + 1e-4)
        expected = -strength * 2 * k * np.linalg.norm(bias) ** (2 * k - 2) * bias
        np.testing.assert_allclose(update["bias"], expected, rtol=1e-3, atol=1e-5)
    vectors = np.split(state.inner.method, np.cumsum([6, 5]))
    np.testing.assert_allclose([np.linalg.norm(u) for u in vectors], 1, rtol=1e-5)


@pytest.mark.parametrize("k", [1.0, 2.0])
def test_zeros_have_a_finite_gradient_of_zero(k):
    params = optax.tree.zeros_like(rollouts.network())
    updates, state = updated(params, begun(), 1.0, k)
    assert_equal(updates, params)
    np.testing.assert_array_equal(state.inner.method, begun().inner.method)  # it waits


class Normed(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Dense(3)(x)
        return nn.Dense(2)(nn.relu(nn.LayerNorm()(x)))


def test_scales_of_norms_move_toward_one_and_their_offsets_toward_zero():
    model, x = Normed(), jnp.ones((1, 4))
    shapes = jax.eval_shape(model.init, jax.random.key(0), x)["params"]
    params = jax.tree.map(lambda s: jnp.full(s.shape, 0.5), shapes)
    scale, offset = jnp.array([2.0, 1.0, -0.5]), jnp.array([0.0, 3.0, -4.0])
    params["LayerNorm_0"] = {"scale": scale, "bias": offset}
    graph = trace_units(lambda p, x: model.apply({"params": p}, x), params, x)
    tx = attached(SpectralRegularization(0.1), units=graph)
    updates, _ = jit(lambda p: tx.update(optax.tree.zeros_like(p), tx.init(p), p))(params)
    found = updates["LayerNorm_0"]
    # 2k(γᵏ − 1)γᵏ⁻¹ = 4(γ² − 1)γ, and 2k‖b‖²ᵏ⁻²b = 4 · 25 · b.
    np.testing.assert_allclose(found["scale"], [-2.4, 0.0, -0.15], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["bias"], -10.0 * offset, rtol=1e-5)
    np.testing.assert_allclose(updates["Dense_0"]["bias"], -0.1 * 4 * 0.75 * 0.5, rtol=1e-5)


def test_lanes_with_other_numbers():
    params = rollouts.network()
    numbers = np.array([0.1, 0.5]), np.array([1.0, 2.5])
    lanes = jit(jax.vmap(update, (None, None, 0, 0)))(params, begun(), *numbers)
    for i in range(2):
        single = updated(params, begun(), numbers[0][i], numbers[1][i])
        assert_close(jax.tree.map(lambda x, i=i: x[i], lanes), single)


def test_without_strength_nothing_changes():
    params = rollouts.network()
    tx = attached(SpectralRegularization(0.0), rollouts.inner())
    assert_equal(rollouts.run(tx, params, rollouts.stream(params))[0], rollouts.bare()[0])


def test_bad_options():
    with pytest.raises(ValueError, match="strength must be at least 0, got -1"):
        SpectralRegularization(-1)
    with pytest.raises(ValueError, match=r"exponent must be at least 1, got 0\.5"):
        SpectralRegularization(exponent=0.5)
