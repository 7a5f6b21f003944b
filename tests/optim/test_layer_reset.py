"""Resets of the last layers, against the code of Nikishin et al. (2022).

tests/golden/layer_reset.npz comes from their repository evgenii-nikishin/rl_with_resets at commit
502ec52: `JaxSPRAgent.reset_weights` and `copy_params` of discrete_control/agents/rainbow_agent.py,
run on a network {encoder, projection, head} of three dense layers with Adam's state after 7 steps.
The arrays are the old parameters and moments, the fresh parameters, and the results of a reset of
the head ("head", their setting for Atari), of head and projection ("projection"), and of all.
"""

import dataclasses
import functools

import flax.linen as nn
import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import strategies as st

from continual_learning.optim import (
    FullReset,
    LayerReset,
    attach_reset_method,
    sequential_units,
    trace_units,
)
from continual_learning.optim.methods.layer_reset import distances
from tests.optim.rollouts import assert_close, fresh, inner, jit, network, rollout, stream

NAMES = ("encoder", "projection", "head")


def tree(g, prefix):
    return {n: {k: jnp.asarray(g[f"{prefix}_{n}_{k}"]) for k in ("kernel", "bias")} for n in NAMES}


def test_the_authors_resets(golden, close):
    g = golden("layer_reset")
    params, new = tree(g, "old"), tree(g, "fresh")
    by_shape = {layer["kernel"].shape: layer["kernel"] for layer in new.values()}
    # A step without a gradient takes the decay.
    mu, nu = (
        jax.tree.map(lambda m, d=d: m / d, tree(g, n)) for n, d in (("mu", 0.9), ("nu", 0.999))
    )

    @jit
    def reset(layers):
        method = LayerReset(init=lambda key, shape, dtype: by_shape[shape])
        tx = attach_reset_method(
            tx=optax.chain(optax.scale_by_adam(), optax.scale(0.0)),
            reset_method=dataclasses.replace(method, layers=layers),
            units=sequential_units(params, [f"{n}/kernel" for n in NAMES]),
        )
        state = tx.init(params)
        adam = state.inner[0]._replace(mu=mu, nu=nu)
        state = state._replace(inner=(adam, *state.inner[1:]))
        updates, state = tx.update(optax.tree.zeros_like(params), state, params, task=1)
        return optax.apply_updates(params, updates), state.inner[0].mu, state.inner[0].nu

    for case, layers in (("head", 1), ("projection", 2), ("all", 3)):
        for ours, what in zip(reset(layers), (case, f"{case}_mu", f"{case}_nu"), strict=True):
            jax.tree.map(close, ours, tree(g, what))
        for i, n in enumerate(NAMES):  # the arrays are as the names say
            redrawn = np.array_equal(g[f"{case}_{n}_kernel"], g[f"fresh_{n}_kernel"])
            assert redrawn == (3 - i <= layers)


@functools.cache
def two_steps(reset_moments):
    """(layers, params, grads) -> parameters and state after a step and one with a reset."""
    params = network()

    def run(layers, params, grads):
        method = LayerReset(every=1, reset_moments=reset_moments, init=fresh)
        method = dataclasses.replace(method, layers=layers)
        tx = attach_reset_method(tx=inner(), reset_method=method)
        state = tx.init(params)
        for _ in range(2):
            updates, state = tx.update(grads, state, params)
            params = optax.apply_updates(params, updates)
        return params, state

    return jit(run), params


@hypothesis.settings(max_examples=6)
@hypothesis.given(st.integers(1, 5), st.booleans(), st.integers(0, 3))
def test_layers_before_the_chosen_ones_go_on(layers, reset_moments, seed):
    run, params = two_steps(reset_moments)
    grads = jax.tree.map(lambda g: g[0], stream(params, seed % 3, steps=1)[0])
    new, state = run(layers, params, grads)
    untouched, alone = jit(plain_steps)(params, grads)
    for i in range(3):
        layer, trace = f"layer_{i}", state.inner[0].trace[f"layer_{i}"]
        before, momentum = untouched[layer], alone[0].trace[layer]
        if 3 - i > layers:
            assert_close(new[layer], before)
        else:
            assert (new[layer]["kernel"] != before["kernel"]).mean() > 0.9
            np.testing.assert_array_equal(new[layer]["bias"], 0)
        kept = 0.0 if reset_moments and 3 - i <= layers else 1.0
        assert_close(trace, optax.tree.scale(kept, momentum))
    np.testing.assert_array_equal(state.log.resets, 1)
    np.testing.assert_array_equal(state.log.total, [6 * (layers >= 3), 5 * (layers >= 2)])


def plain_steps(params, grads):
    tx = inner()
    state = tx.init(params)
    for _ in range(2):
        updates, state = tx.update(grads, state, params)
        params = optax.apply_updates(params, updates)
    return params, state


def test_numbers_may_differ_between_lanes():
    params = network()
    data = stream(params)

    def run(every, layers):
        method = dataclasses.replace(LayerReset(every=1, init=fresh), every=every, layers=layers)
        return rollout(attach_reset_method(tx=inner(), reset_method=method), params, data)

    every, layers = np.array([1, 2, 3, 9]), np.array([1, 3, 2, 1])
    together = jit(jax.vmap(run))(every, layers)
    single = jit(run)
    for i in range(4):
        assert_close(jax.tree.map(lambda x, i=i: x[i], together), single(every[i], layers[i]))


def test_a_network_of_one_layer_is_reset():
    params = {"kernel": jnp.ones((3, 2)), "bias": jnp.ones(2)}
    tx = attach_reset_method(tx=optax.sgd(0.0), reset_method=LayerReset(init=fresh))
    updates, _ = tx.update(params, tx.init(params), params, task=1)
    new = optax.apply_updates(params, updates)
    assert (new["kernel"] != 1).all()
    np.testing.assert_array_equal(new["bias"], 0)


class Net(nn.Module):
    """A stem, a residual block and a normed layer, and heads of one and of two layers."""

    @nn.compact
    def __call__(self, x):
        x = nn.Dense(4, name="stem")(x)
        x = x + nn.Dense(4, name="close")(nn.tanh(nn.Dense(3, name="open")(nn.tanh(x))))
        x = nn.tanh(nn.LayerNorm(name="norm")(nn.Dense(5, name="last")(nn.tanh(x))))
        deep = nn.Dense(2, name="policy")(nn.tanh(nn.Dense(3, name="before")(x)))
        return deep, nn.Dense(1, name="value")(x)


@functools.cache
def branching():
    x = jnp.ones((2, 3))
    params = Net().init(jax.random.key(0), x)
    params = jax.tree.map(lambda p: p + 0.5, params)  # so that fresh norms and biases differ
    graph = trace_units(Net().apply, params, x, output=lambda out: out)

    def reset(layers):
        method = dataclasses.replace(LayerReset(init=fresh), layers=layers)
        tx = attach_reset_method(tx=optax.sgd(0.0), reset_method=method, units=graph)
        updates, state = tx.update(params, tx.init(params), params, task=1)
        return optax.apply_updates(params, updates), state

    return params, graph, jit(reset)


def test_distances_of_heads_residuals_and_norms():
    params, graph, reset = branching()
    expected = dict(policy=1, value=1, before=2, last=3, close=4, open=5, stem=6)
    assert distances(graph) == {f"params/{n}/kernel": d for n, d in expected.items()}
    for layers in (1, 3, 9):
        new, _ = reset(layers)
        for name, old in params["params"].items():
            alike = jax.tree.map(lambda a, b: bool((a == b).all()), new["params"][name], old)
            chosen = expected.get(name, expected["last"]) <= layers
            assert set(alike.values()) == {not chosen}, name
        if layers >= 3:
            np.testing.assert_array_equal(new["params"]["norm"]["scale"], 1)
            np.testing.assert_array_equal(new["params"]["norm"]["bias"], 0)


def test_queries_and_keys_count_with_the_values():
    rng = np.random.default_rng(0)
    params = {n: jnp.asarray(rng.normal(size=(3, 3)), jnp.float32) for n in "iqkvo"}

    def apply(p, x):
        x = jnp.tanh(x @ p["i"])
        q, k, v = (x @ p[n] for n in "qkv")
        return jax.nn.softmax(jnp.einsum("btc,bsc->bts", q, k)) @ v @ p["o"]

    graph = trace_units(apply, params, jnp.ones((2, 4, 3)))
    assert distances(graph) == {"o": 1, "v": 2, "k": 2, "q": 2, "i": 3}


def test_a_full_reset_draws_all_layers():
    params = network()
    tx = attach_reset_method(tx=optax.sgd(0.0), reset_method=FullReset(init=fresh))
    updates, state = jit(tx.update)(params, tx.init(params), params, task=2)
    for layer in optax.apply_updates(params, updates).values():
        np.testing.assert_array_equal(layer["bias"], 0)
    assert all((u != 0).mean() > 0.9 for u in jax.tree.leaves(updates))
    np.testing.assert_array_equal(state.log.total, [6, 5])


def test_bad_arguments():
    with pytest.raises(ValueError, match="LayerReset: layers must be at least 1, got 0"):
        LayerReset(layers=0)
    with pytest.raises(ValueError, match="FullReset: every must be at least 1, got 0"):
        FullReset(every=0)
