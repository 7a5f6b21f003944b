"""TRAC against its authors' program, and by hand.

`tests/golden/trac.npz` holds 60 steps of `start_trac` of github.com/ComputationalRobotics/TRAC
(package/src/trac_optimizer/trac.py at commit 320a100 of October 24, 2024) around torch's Adam and
SGD, with given gradients that turn around after step 36, in float64, and values of its `erfi`. That
function is off by up to 1 %, since its series lacks a term; `theirs` repeats this for the parity.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st

from continual_learning.optim import TRAC, attach_reset_method, erfi
from continual_learning.optim.method import with_initial
from tests.optim.rollouts import (
    STEPS,
    assert_close,
    assert_equal,
    jit,
    network,
    rollout,
    run,
    stream,
)


def theirs(terms=128):
    """The scale and coefficients of the authors' series, without the value at infinity."""
    scale = np.sqrt(terms / np.sqrt(2))
    half = 2 * terms
    t = scale * np.tan(np.arange(1 - half, half) * np.pi / half / 2)
    f = np.exp(-(t**2)) * (scale**2 + t**2)
    return scale, np.fft.fft(np.fft.fftshift(f)).real[1 : terms + 1] / (2 * half)


@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_golden(name, golden, layered, monkeypatch, precision):
    monkeypatch.setattr(erfi, "weideman", theirs)
    g = golden("trac")
    params = layered(g)
    inner = {"adam": optax.adam, "sgd": optax.sgd}[name](float(g["learning_rate"]))
    tx = attach_reset_method(tx=inner, reset_method=TRAC())
    grads = layered(g, "kernel_grad", "bias_grad")

    def step(carry, grads):
        params, state = carry
        updates, state = tx.update(grads, state, params)
        params = optax.apply_updates(params, updates)
        return (params, state), (params, state.inner.tuner.value.s)

    scan = jit(lambda p, d: jax.lax.scan(step, (p, tx.init(p)), d)[1])
    after, s = scan(params, grads)
    # The authors recompute Δ from the parameters, so that even float64 leaves some 1e-7 of it.
    rtol = {"float64": 1e-5, "float32": 5e-3}[precision]
    np.testing.assert_allclose(s, g[f"s_{name}"], rtol=rtol, atol=rtol * 1e-8)
    assert s.sum(axis=1).max() > 1e-3
    assert s.sum(axis=1)[-1] < 0
    for i in range(3):
        for part in ("kernel", "bias"):
            start = g[f"{part}_before_{i}"][None]
            moved = after[f"layer_{i}"][part][9::10] - start
            expected = g[f"{part}_{name}_{i}"] - start
            atol = {"float64": 1e-12, "float32": 3e-7}[precision]  # float32 holds weights near 1
            np.testing.assert_allclose(moved, expected, rtol=rtol, atol=atol)


def test_erfi(golden, monkeypatch, precision):
    rtol = {"float64": 1e-13, "float32": 1e-5}[precision]
    x = np.concatenate([10.0 ** np.arange(-12, 0), np.linspace(0.1, 9, 50)]).astype(precision)
    x = np.concatenate([-x, [0.0], x]).astype(precision)
    exact = scipy.special.erfi(x.astype(float))
    np.testing.assert_allclose(jit(erfi.erfi)(x), exact, rtol=rtol)
    g = golden("trac")
    monkeypatch.setattr(erfi, "weideman", theirs)
    np.testing.assert_allclose(erfi.erfi(jnp.asarray(g["erfi_x"])), g["erfi"], rtol=rtol)
    np.testing.assert_allclose(g["erfi"], scipy.special.erfi(g["erfi_x"].astype(float)), rtol=0.011)


def test_steps_by_hand():
    """One weight, one discount; the scale grows, becomes negative, and stays so."""
    method = TRAC(s_prev=0.1, eps=1e-8, betas=(0.5,))
    tx = attach_reset_method(tx=optax.sgd(1.0), reset_method=method)
    exact = scipy.special.erfi
    unit = 0.1 / exact(1 / np.sqrt(2))
    update = jit(tx.update)
    w, state = {"w": jnp.array([[3.0]])}, tx.init({"w": jnp.array([[3.0]])})
    sigma, variance, scale, way, scales = 1e-8, 0.0, 0.0, 0.0, []
    for g in (-2.0, -1.0, -1.0, 3.0, -1.0):
        way *= max(scale, 0) / (scale + 1e-8)
        h = g * way
        sigma, variance = 0.5 * sigma - h, 0.25 * variance + h**2
        scale = unit * exact(sigma / (np.sqrt(2 * variance) + 1e-8))
        way -= g
        updates, state = update({"w": jnp.array([[g]])}, state, w)
        w = optax.apply_updates(w, updates)
        np.testing.assert_allclose(w["w"][0, 0], 3 + max(scale, 0) * way, rtol=1e-5)
        scales.append(scale)
    assert scales[0] < scales[1] < scales[2]
    assert scales[3] < 0
    assert scales[4] < 0


def steady(params):
    """Gradients that never turn, as on an endless slope, so that the scale grows."""
    return jax.tree.map(lambda p: jnp.ones((STEPS, *p.shape)), params), {}


def test_a_negative_scale_returns_to_the_reference_exactly():
    params = network()
    grads = jax.tree.map(lambda p: jnp.stack([p, p, -50 * p, -50 * p]), params)
    tx = attach_reset_method(tx=optax.sgd(0.1), reset_method=TRAC(s_prev=0.1, betas=(0.9,)))
    new, state = run(tx, params, (grads, {}))
    assert state.inner.tuner.value.s < 0
    assert_equal(new, params)
    middle, _ = run(tx, params, (jax.tree.map(lambda g: g[:2], grads), {}))
    assert not np.allclose(middle["layer_0"]["kernel"], params["layer_0"]["kernel"])


@given(seed=st.integers(0, 10**6), scale=st.sampled_from([0.01, 100.0]))
def test_the_scale_of_the_loss_hardly_matters(seed, scale):
    """With the same steps of the inner optimizer, only `eps` sees the scale of the loss."""
    params = network()
    slope = jax.tree.map(lambda g: jnp.abs(g) + seed / 10**6, stream(params, seed=seed % 5)[0])
    ends = [sign_descent()(params, jax.tree.map(lambda g, c=c: c * g, slope)) for c in (1.0, scale)]
    assert_close(*ends, rtol=1e-3, atol=1e-5)
    assert not np.allclose(ends[0]["layer_0"]["bias"], params["layer_0"]["bias"], atol=0.01)


@functools.cache
def sign_descent():
    tx = attach_reset_method(tx=optax.sign_sgd(0.1), reset_method=TRAC(s_prev=0.1, eps=1e-8))
    return jit(lambda params, grads: rollout(tx, params, (grads, {}))[0])


def test_lanes_with_other_numbers_equal_single_runs():
    params = network()
    data = steady(params)

    def trained(s_prev, eps):
        tx = attach_reset_method(tx=optax.adam(0.1), reset_method=TRAC(s_prev, eps))
        return rollout(tx, params, data)

    numbers = jnp.array([[0.1, 0.01], [1e-8, 1e-3]])
    lanes, alone = jit(jax.vmap(trained))(*numbers), jit(trained)
    for i in range(2):
        assert_close(jax.tree.map(lambda x, i=i: x[i], lanes), alone(*numbers[:, i]), rtol=1e-4)
    kernels = lanes[0]["layer_0"]["kernel"]
    assert not np.allclose(kernels[0], kernels[1])


def test_a_new_optimizer_keeps_the_tuner_and_masked_parameters_stay():
    params = network()
    mask = jax.tree.map(lambda p: p.ndim == 2, params)
    tx = attach_reset_method(tx=optax.sgd(0.1), reset_method=TRAC(s_prev=0.1))
    masked = optax.masked(tx, mask)
    grads, features = steady(params)
    grads = jax.tree.map(lambda g, m: g if m else 0 * g, grads, mask)
    new, state = run(masked, params, (grads, features))
    assert not np.allclose(new["layer_0"]["kernel"], params["layer_0"]["kernel"])
    tuner = state.inner_state.inner.tuner.value
    for layer, old in params.items():
        assert_equal(new[layer]["bias"], old["bias"])
        assert_equal(tuner.reference[layer]["kernel"], old["kernel"])
    again = with_initial(masked.init(new), state)
    assert_equal(again.inner_state.inner.tuner, state.inner_state.inner.tuner)
    assert again.inner_state.calls == 0


def test_bad_arguments():
    with pytest.raises(ValueError, match="TRAC: s_prev must be at least 0, got -1"):
        TRAC(s_prev=-1)
    for betas in ((), (0.9, 1.1), [0.9], 0.9):
        with pytest.raises(ValueError, match="TRAC: betas must be a tuple of shares"):
            TRAC(betas=betas)
