"""Shrink & Perturb."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.optim import ShrinkAndPerturb, attach_reset_method


def run(params, method, steps, graph=None):
    tx = attach_reset_method(tx=optax.sgd(0.0), reset_method=method, units=graph)
    grads = jax.tree.map(jnp.ones_like, params)
    state, update, history = tx.init(params), jax.jit(tx.update), []
    for _ in range(steps):
        updates, state = update(grads, state, params)
        params = optax.apply_updates(params, updates)
        history.append(params)
    return history


@pytest.mark.parametrize("kernels_only", [False, True])
def test_kernels_shrink_and_are_perturbed_and_biases_shrink(mlp, kernels_only):
    params = mlp()
    method = ShrinkAndPerturb(
        0.25, 0.5, 2, kernels_only, init=lambda key, shape, dtype: jnp.full(shape, 4.0, dtype)
    )
    first, second, *_ = run(params, method, 2)
    jax.tree.map(np.testing.assert_array_equal, first, params)
    for name, layer in params.items():  # the output layer's too
        np.testing.assert_allclose(second[name]["kernel"], 0.75 * layer["kernel"] + 2, rtol=1e-5)
        share = 1.0 if kernels_only else 0.75
        np.testing.assert_allclose(second[name]["bias"], share * layer["bias"], rtol=1e-6)


def test_every_one_acts_on_every_step(mlp):
    method = ShrinkAndPerturb(0.5, 0.0, 1)
    params = mlp()
    for t, after in enumerate(run(params, method, 3), start=1):
        kernel = params["layer_0"]["kernel"]
        np.testing.assert_allclose(after["layer_0"]["kernel"], kernel * 0.5**t, rtol=1e-6)


def test_a_single_linear_layer_is_touched_and_fresh_noise_is_drawn_each_time():
    params = {"kernel": jnp.zeros((50, 40))}
    one, two = run(params, ShrinkAndPerturb(0.0, 0.1, 1, init="lecun_normal"), 2)
    noise = np.asarray(one["kernel"]), np.asarray(two["kernel"] - one["kernel"])
    for x in noise:
        np.testing.assert_allclose(x.std(), 0.1 / np.sqrt(50), rtol=0.1)
    assert abs(np.corrcoef(noise[0].ravel(), noise[1].ravel())[0, 1]) < 0.1


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"shrink must be at least 0 and at most 1, got -0\.1"):
        ShrinkAndPerturb(-0.1, 0.1, 1)
    with pytest.raises(ValueError, match="perturb must be at least 0, got -1"):
        ShrinkAndPerturb(0.1, -1, 1)
