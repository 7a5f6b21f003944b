"""UPGD against its authors' program, and by hand.

`tests/golden/upgd.npz` holds six steps of optimizers of github.com/mohmdelsayed/upgd at commit
b75e90a of October 14, 2024, in float64, with torch.randn_like replaced by given arrays: the classes
FirstOrderGlobalUPGD and FirstOrderLocalUPGD of core/optim/weight_upgd and AdaptiveUPGD of
core/run/rl, all with given gradients, and the two classes of the same names of
core/optim/feature_upgd in a network of one ReLU and one tanh layer, each followed by a gate of
ones, with the gradients of a mean squared error, which the file holds too.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continual_learning.optim import UPGD, attach_reset_method, sequential_units, trees
from continual_learning.optim.methods import upgd
from tests.optim.rollouts import assert_close, jit, network, rollout, run, stream

CASES = {
    "weight_global": ("grad", {}),
    "weight_local": ("grad", {"scaling": "local"}),
    "adaptive": ("grad", {"gain": 2.0}),
    "unit_global": ("unit_global_grad", {"level": "unit"}),
    "unit_local": ("unit_local_grad", {"level": "unit", "scaling": "local"}),
}


@pytest.mark.parametrize("name", CASES)
def test_golden(name, golden, layered, close, monkeypatch, precision):
    g = golden("upgd")
    params = layered(g)
    grads, options = CASES[name]
    names = ("sigma", "beta_utility", "weight_decay")
    rate = float(g["learning_rate"])
    options = {"gain": 1.0, "step_size": rate, **{n: float(g[n]) for n in names}} | options
    inner = optax.adam(rate, eps=1e-5) if name == "adaptive" else optax.sgd(rate)
    tx = attach_reset_method(tx=inner, reset_method=UPGD(**options))
    grads = layered(g, f"kernel_{grads}", f"bias_{grads}")
    noise = layered(g, "kernel_noise", "bias_noise")

    def step(carry, now):
        params, state = carry
        flat = {f"{layer}/{part}": x for layer, v in now[1].items() for part, x in v.items()}
        monkeypatch.setattr(upgd, "noise", lambda key, params: flat)
        updates, state = tx.update(now[0], state, params)
        params = optax.apply_updates(params, updates)
        return (params, state), params

    grads, noise = jax.tree.map(lambda x: x.astype(precision), (grads, noise))
    scan = jit(lambda p, d: jax.lax.scan(step, (p, tx.init(p)), d)[1])
    after = scan(params, (grads, noise))
    for i in range(3):
        for part in ("kernel", "bias"):
            close(after[f"layer_{i}"][part], g[f"{part}_{name}_{i}"])


def one_step(params, grads, monkeypatch, noise=None, tx=None, units=None, **options):
    """The change of the parameters by one step with α = 0.5."""
    noise = noise or jax.tree.map(jnp.zeros_like, params)
    monkeypatch.setattr(upgd, "noise", lambda key, params: dict(trees.named_leaves(noise)))
    options = {"step_size": 0.5, "gain": 1.0, "weight_decay": 0.0} | options
    method = UPGD(**options)
    tx = attach_reset_method(tx=tx or optax.sgd(0.5), reset_method=method, units=units)
    return jit(lambda p, g: tx.update(g, tx.init(p), p)[0])(params, grads)


def test_a_step_by_hand(monkeypatch):
    """Utilities 4, −2 and 0; the first average is 0.1 of them, and only û is corrected for it."""
    params = {"w": jnp.array([2.0, 1.0]), "b": jnp.array(0.0)}
    grads = {"w": jnp.array([-2.0, 2.0]), "b": jnp.array(3.0)}
    noise = {"w": jnp.array([1.0, -1.0]), "b": jnp.array(2.0)}
    options = {"sigma": 0.2, "weight_decay": 0.3, "gain": 2.0, "beta_utility": 0.9}
    step = one_step(params, grads, monkeypatch, noise, **options)
    w = [1.0, -0.5] / np.array(0.1)
    protected = 1 / (1 + np.exp(w))
    expected = 2 * protected * ([1.0, -1.0] - 0.1 * np.array([1.0, -1.0])) - 0.15 * np.array([2, 1])
    np.testing.assert_allclose(step["w"], expected, rtol=1e-5)
    np.testing.assert_allclose(step["b"], 2 * 0.5 * (-1.5 - 0.1 * 2), rtol=1e-5)


def test_noise_decay_and_gates_of_units(monkeypatch):
    """The output layer has neither gate nor noise; useless units move more than useful ones."""
    params = network(sizes=(2, 2, 1))
    params["layer_1"]["kernel"] = jnp.array([[1.0], [1.0]])
    grads = jax.tree.map(jnp.ones_like, params)
    grads["layer_1"]["kernel"] = jnp.array([[-3.0], [4.0]])  # utilities 3 and −4
    noise = jax.tree.map(jnp.ones_like, params)
    step = one_step(params, grads, monkeypatch, noise, level="unit", scaling="local", sigma=1.0)
    gates = 1 / (1 + np.exp([0.6, -0.8]))
    for part, shape in {"kernel": (2, 2), "bias": (2,)}.items():
        np.testing.assert_allclose(step["layer_0"][part], np.broadcast_to(-gates, shape), rtol=1e-5)
    assert_close(step["layer_1"], jax.tree.map(lambda g: -0.5 * g, grads["layer_1"]))


def test_local_scaling_is_over_the_inputs_of_a_unit(monkeypatch):
    params = {
        "a": {"kernel": jnp.ones((2, 2, 1, 3)), "bias": jnp.ones(3)},
        "b": {"kernel": jnp.ones((3, 2))},
    }
    graph = sequential_units(params, ["a/kernel", "b/kernel"])
    grads = jax.tree.map(lambda p: -jnp.ones_like(p), params)
    step = one_step(params, grads, monkeypatch, units=graph, scaling="local", sigma=0.0)
    for path, entries in {"a/kernel": 4, "a/bias": 3, "b/kernel": 3}.items():
        layer, part = path.split("/")
        gate = 1 / (1 + np.exp(1 / np.sqrt(entries)))
        np.testing.assert_allclose(step[layer][part], 0.5 * gate, rtol=1e-5)


def test_without_utility_noise_and_decay_it_is_the_inner_optimizer(monkeypatch):
    params = jax.tree.map(jnp.zeros_like, network())
    grads, _ = stream(params, steps=1)
    grads = jax.tree.map(lambda g: g[0], grads)
    for options in ({}, {"level": "unit"}, {"scaling": "local"}):
        step = one_step(params, grads, monkeypatch, sigma=0.0, gain=2.0, **options)
        assert_close(step, jax.tree.map(lambda g: -0.5 * g, grads))


@given(seed=st.integers(0, 10**6), scale=st.sampled_from([1e-3, 7.0, 1e3]))
def test_gates_are_shares_and_do_not_depend_on_the_scale_of_the_loss(seed, scale):
    utility = np.random.default_rng(seed).normal(size=(3, 4)).astype(np.float32)
    for scaling in ("global", "local"):
        method = UPGD(scaling=scaling, beta_utility=0.5)
        gates = [
            method.gates({"w": jnp.asarray(c * utility)}, {}, jnp.asarray(2))["w"]
            for c in (1.0, scale)
        ]
        assert ((gates[0] >= 0) & (gates[0] <= 1)).all()
        np.testing.assert_allclose(*gates, rtol=1e-3, atol=1e-6)


def test_noise_has_the_given_deviation_and_differs_between_steps_entries_and_seeds():
    params = {"w": jnp.zeros((40, 50)), "b": jnp.zeros(1000, jnp.bfloat16)}
    tx = attach_reset_method(
        tx=optax.sgd(0.0),
        reset_method=UPGD(sigma=2.0, step_size=0.1, gain=2.0),
        units=sequential_units(params, ["w"]),
    )
    update = jit(tx.update)
    zero = jax.tree.map(jnp.zeros_like, params)
    state = tx.init(params)
    first, state = update(zero, state, params)
    second, _ = update(zero, state, params)
    np.testing.assert_allclose(first["w"].std(), 0.2, rtol=0.1)
    np.testing.assert_allclose(first["b"].astype(float).std(), 0.2, rtol=0.1)
    flat = [np.asarray(x, float).ravel()[:1000] for x in (first["w"], second["w"], first["b"])]
    correlation = np.corrcoef(flat) - np.eye(3)
    assert abs(correlation).max() < 0.15
    other = tx.init(jax.tree.map(lambda p: p + 1, params))
    assert not np.array_equal(other.inner.key, state.inner.key)


def test_lanes_with_other_numbers_equal_single_runs():
    """At the level of units; tests/optim/test_optax_lanes.py has the level of weights."""
    params = network()
    data = stream(params)

    def trained(sigma, beta, gain):
        method = UPGD(sigma, beta, step_size=0.05, gain=gain, level="unit")
        return rollout(attach_reset_method(tx=optax.sgd(0.05), reset_method=method), params, data)

    numbers = jnp.array([[0.1, 0.2], [0.9, 0.5], [1.0, 2.0]])
    lanes = jit(jax.vmap(trained))(*numbers)
    alone = jit(trained)
    for i in range(2):
        assert_close(jax.tree.map(lambda x, i=i: x[i], lanes), alone(*numbers[:, i]))


def test_masked_parameters_are_left_alone():
    params = network()
    mask = jax.tree.map(lambda p: p.ndim == 2, params)
    for level in ("weight", "unit"):
        method = UPGD(sigma=1.0, step_size=1.0, level=level)
        tx = attach_reset_method(tx=optax.sgd(0.05), reset_method=method)
        new, _ = run(optax.masked(tx, mask), params, stream(params))
        plain, _ = run(optax.masked(optax.sgd(0.05), mask), params, stream(params))
        for layer in params:
            np.testing.assert_allclose(new[layer]["bias"], plain[layer]["bias"])
        assert not np.allclose(new["layer_0"]["kernel"], plain["layer_0"]["kernel"])


def test_bad_arguments():
    for option, value in {"sigma": -1, "beta_utility": 2, "weight_decay": -1, "gain": -1}.items():
        with pytest.raises(ValueError, match=f"UPGD: {option} must be at least 0"):
            UPGD(**{option: value})
    with pytest.raises(ValueError, match="UPGD: level must be 'weight' or 'unit', got 'layer'"):
        UPGD(level="layer")
    with pytest.raises(ValueError, match="UPGD: scaling must be 'global' or 'local', got 'none'"):
        UPGD(scaling="none")
