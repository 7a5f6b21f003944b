"""Methods around one another, and beside other means of keeping plasticity."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from continual_learning.networks import MLP
from continual_learning.optim import CPR, L2Init, ReDo, attach_reset_method, trace_units
from tests.optim import rollouts
from tests.optim.rollouts import HEAD, STEPS, assert_equal, jit, run

STRENGTH = 0.2


def around(method, tx):
    return attach_reset_method(tx=tx, reset_method=method)


def test_redo_around_l2_init():
    """Each does what it does alone: the pull in every step, the resets when they are due."""
    params = rollouts.network()
    data = rollouts.stream(params)
    redo = ReDo(threshold=0.1, every=2, init=rollouts.fresh)
    both = around(redo, around(L2Init(STRENGTH), optax.adam(0.1)))

    def until(tx, steps):
        return run(tx, params, jax.tree.map(lambda x: x[:steps], data))

    # The first reset is in call 2; until then there is only the pull.
    pulled, _ = until(around(L2Init(STRENGTH), optax.adam(0.1)), 2)
    assert_equal(until(both, 2)[0], pulled)

    after, state = until(both, 3)
    assert state.log.total.sum() == 2  # unit 0 of both hidden layers has hardly a feature
    np.testing.assert_array_equal(after["layer_1"]["kernel"][0], 0)
    np.testing.assert_array_equal(after[HEAD]["kernel"][0], 0)
    np.testing.assert_array_equal([after["layer_0"]["bias"][0], after["layer_1"]["bias"][0]], 0)
    moments = optax.tree.get(state, "mu")
    np.testing.assert_array_equal(moments["layer_0"]["kernel"][:, 0], 0)
    assert (moments["layer_0"]["kernel"][:, 1:] != 0).all()

    # L2 Init goes on pulling toward the first weights, also the fresh ones.
    grads, features = jax.tree.map(lambda x: x[3], data)
    updates, _ = jit(both.update)(grads, state, after, features=features, reset=False)
    pull = jax.tree.map(lambda g, p, q: g + STRENGTH * (p - q), grads, after, params)
    adam = optax.adam(0.1)
    expected, _ = jit(adam.update)(pull, state.inner.inner.inner, after)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), updates, expected)


def test_cpr_around_adamw_with_layer_norms():
    """Between resets these are AdamW's steps; a reset moves kernels and, if told so, norms."""
    model = MLP((6, 5), 2, layer_norm=True)
    x = jax.random.normal(jax.random.key(1), (8, 4))
    params = model.init(jax.random.key(0), x)
    graph = trace_units(model.apply, params, x)
    adamw = optax.adamw(0.05, weight_decay=0.1)
    cpr = CPR(max_reset=0.5, every=3, reset_bias=True)
    tx = attach_reset_method(tx=adamw, reset_method=cpr, units=graph)

    def rollout(tx):
        def step(carry, t):
            params, state = carry
            grads = jax.grad(lambda p: jnp.mean((model.apply(p, x) - jnp.cos(t)) ** 2))(params)
            updates, state = tx.update(grads, state, params)
            params = optax.apply_updates(params, updates)
            return (params, state), params

        return jax.lax.scan(step, (params, tx.init(params)), jnp.arange(1.0, STEPS))

    (_, state), ours = jit(rollout, static_argnums=0)(tx)
    _, alone = jit(rollout, static_argnums=0)(adamw)
    assert (state.log.resets == 1).all()
    before = jax.tree.map(lambda x: x[:3], (ours, alone))
    assert_equal(*before)
    moved = jax.tree.map(lambda a, b: bool((a[3] != b[3]).any()), ours, alone)["params"]
    assert all(jax.tree.leaves([moved["hidden_0"], moved["hidden_1"], moved["norm_0"]]))
    assert not moved["output"]["bias"]  # it belongs to no unit
