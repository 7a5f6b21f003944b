"""`attach_reset_method`: the paper's listing, exactness, randomness, the log, bad numbers."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.optim import (
    BINS,
    CBP,
    CPR,
    NoReset,
    ReDo,
    ReGraMa,
    ResetMethod,
    ShrinkAndPerturb,
    attach_reset_method,
    recognize_units,
    reset_method,
    sequential_units,
)

METHODS = {
    "cpr": CPR(max_reset=0.1, every=3),
    "cbp": CBP(replacement_rate=0.1, maturity=1),
    "redo": ReDo(threshold=0.9, every=3),
    "regrama": ReGraMa(threshold=0.9, every=3),
    "shrink_perturb": ShrinkAndPerturb(shrink=0.1, perturb=0.1, every=3),
    "no_reset": NoReset(),
}
NEVER = {
    "cpr": CPR(every=1000),
    "cbp": CBP(replacement_rate=0.1, maturity=1000),
    "redo": ReDo(threshold=0.9, every=1000),
    "regrama": ReGraMa(threshold=0.9, every=1000),
    "shrink_perturb": ShrinkAndPerturb(shrink=0.1, perturb=0.1, every=1000),
    "no_reset": NoReset(),
}
ZERO = {
    "cpr": CPR(max_reset=0.0, every=2),
    "cbp": CBP(replacement_rate=0.0, maturity=1),
    "redo": ReDo(threshold=0.9, every=2, max_reset_fraction=0.0),
    "regrama": ReGraMa(threshold=0.9, every=2, max_reset_fraction=0.0),
    "shrink_perturb": ShrinkAndPerturb(shrink=0.0, perturb=0.0, every=2),
}


@pytest.fixture
def train(forward):
    """Runs `steps` steps of regression; gives the updates of every step, parameters and state."""
    x = jax.random.normal(jax.random.key(7), (8, 5))
    y = jax.random.normal(jax.random.key(8), (8, 3))

    def run(tx, params, steps=7):
        tx = optax.with_extra_args_support(tx)

        @jax.jit
        def gradient(params):
            def loss(params):
                out, features = forward(params, x)
                return jnp.mean((out - y) ** 2), features

            return jax.grad(loss, has_aux=True)(params)

        # Compiled apart: XLA rounds the last bit as the operations around it happen to be fused.
        update, apply = jax.jit(tx.update), jax.jit(optax.apply_updates)
        state, history = tx.init(params), []
        for _ in range(steps):
            grads, features = gradient(params)
            updates, state = update(grads, state, params, features=features)
            params = apply(params, updates)
            history.append(updates)
        return history, params, state

    return run


def identical(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


def test_the_listing_of_the_paper(mlp):
    from continual_learning.optim import CPR
    from continual_learning.utils import attach_reset_method

    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
    tx_w_reset = attach_reset_method(("tx", tx), ("reset_method", CPR()))
    assert isinstance(tx_w_reset, optax.GradientTransformationExtraArgs)
    params = mlp()
    state = tx_w_reset.init(params)
    grads = jax.tree.map(jnp.ones_like, params)
    updates, state = tx_w_reset.update(grads, state, params)
    new = optax.apply_updates(params, updates)  # updates, not parameters
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-3), new, params)


@pytest.mark.parametrize("name", NEVER)
def test_without_a_reset_it_is_the_inner_optimizer_bit_for_bit(name, mlp, train):
    inner = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(1e-2))
    expected, _, inner_state = train(inner, mlp())
    tx = attach_reset_method(tx=inner, reset_method=NEVER[name])
    updates, _, state = train(tx, mlp())
    identical(updates, expected)
    identical(state.inner, inner_state)


@pytest.mark.parametrize("name", ZERO)
def test_a_reset_of_nothing_is_the_inner_optimizer_bit_for_bit(name, mlp, train):
    inner = optax.adam(1e-2)
    expected, _, inner_state = train(inner, mlp())
    updates, _, state = train(attach_reset_method(tx=inner, reset_method=ZERO[name]), mlp())
    identical(updates, expected)
    identical(state.inner, inner_state)
    if name != "cbp":  # at rate 0 it is never due
        assert (state.log.resets >= 2).all()


@pytest.mark.parametrize("name", ["cbp", "redo", "regrama"])
def test_untouched_entries_get_the_inner_update_itself(name, mlp, train):
    """At the step of the first reset, every entry that belongs to no reset unit."""
    inner = optax.adam(1e-2)
    expected, _, _ = train(inner, mlp())
    updates, _, state = train(attach_reset_method(tx=inner, reset_method=METHODS[name]), mlp(), 4)
    assert state.log.total.sum() > 0
    first = {"cbp": 2, "redo": 3, "regrama": 3}[name]
    identical(updates[:first], expected[:first])
    same = jax.tree.map(lambda a, b: a == b, updates[first], expected[first])
    flat = np.concatenate([np.ravel(s) for s in jax.tree.leaves(same)])
    assert 0 < flat.sum() < flat.size
    # The output layer's bias is nobody's unit (and no unit's mean moves there in ReDo, ReGraMa).
    if name != "cbp":
        assert same["layer_2"]["bias"].all()
        kernel = np.asarray(same["layer_2"]["kernel"])
        assert (kernel.all(axis=1) | ~kernel.any(axis=1)).all()


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    "params",
    [jnp.ones(()), jnp.ones(3), {"w": jnp.ones((3, 2)), "b": jnp.ones(2)}, {}],
    ids=["scalar", "vector", "linear", "empty"],
)
def test_harmless_when_nothing_is_resettable(name, params):
    method = METHODS[name]
    tx = attach_reset_method(tx=optax.adam(0.1), reset_method=method)
    state, plain = tx.init(params), optax.adam(0.1).init(params)
    grads = jax.tree.map(jnp.ones_like, params)
    for _ in range(2):
        updates, state = tx.update(grads, state, params)
        expected, plain = optax.adam(0.1).update(grads, plain, params)
        identical(updates, expected)


@pytest.mark.parametrize("name", [n for n in METHODS if n != "no_reset"])
def test_actor_critic_and_seeds_draw_differently(name, mlp, train):
    """With the default key: their keys differ, and equal networks have equal keys."""
    method = METHODS[name]
    keys = [
        attach_reset_method(tx=optax.sgd(0.1), reset_method=method).init(p).key
        for p in (mlp(seed=0), mlp(seed=1), mlp((5, 6, 7, 1)), mlp(seed=0))
    ]
    assert len({tuple(np.asarray(k)) for k in keys}) == 3
    np.testing.assert_array_equal(keys[0], keys[3])
    stacked = jax.tree.map(lambda *x: jnp.stack(x), mlp(seed=0), mlp(seed=1))
    lanes = jax.vmap(attach_reset_method(tx=optax.sgd(0.1), reset_method=method).init)(stacked)
    np.testing.assert_array_equal(lanes.key, jnp.stack(keys[:2]))


def test_draws_change_with_key_and_time_and_kernel(mlp):
    def draws(key, steps=3, params=None):
        params = params or mlp()
        method = CPR(max_reset=1.0, sharpness=0.0, every=1, key=key)
        tx = attach_reset_method(tx=optax.sgd(0.0), reset_method=method)
        state, out = tx.init(params), []
        update = jax.jit(tx.update)
        for _ in range(steps):
            updates, state = update(jax.tree.map(jnp.ones_like, params), state, params)
            out.append(optax.apply_updates(params, updates)["layer_0"]["kernel"])
        return out

    base = draws(0)
    assert not np.allclose(base[1], base[2])
    assert not np.allclose(base[1], draws(1)[1])
    for key in (0, jax.random.key(0), jax.random.PRNGKey(0)):
        np.testing.assert_array_equal(base[1], draws(key)[1])
    assert not np.allclose(base[1], draws(jax.random.key(0, impl="rbg"))[1])
    np.testing.assert_allclose(np.std(base[1]), 1 / np.sqrt(5), rtol=0.35)  # LeCun


def test_the_log(mlp, train):
    graph = recognize_units(mlp())
    for name, method in METHODS.items():
        tx = attach_reset_method(tx=optax.adam(1e-2), reset_method=method)
        _, _, state = train(tx, mlp(), 7)
        log = state.log
        # Every unit of every step is in the histogram.
        assert log.histogram.shape == (2, BINS)
        np.testing.assert_array_equal(log.histogram.sum(1), 7 * graph.sizes)
        np.testing.assert_array_equal(log.skipped, 0)
        if name == "no_reset":
            assert (log.numbers == 0).all()
            continue
        assert (log.resets >= 2).all()
        assert (log.total >= log.amount).all() and log.total.sum() > 0
        np.testing.assert_allclose(log.utility_mean, 1.0, rtol=0.05)
        assert (log.utility_min <= log.utility_mean).all()
        assert ((log.utility_low >= 0) & (log.utility_low <= 1)).all()


def test_the_histogram_by_hand(mlp):
    params = mlp((2, 4, 1))
    grads = jax.tree.map(jnp.zeros_like, params)
    grads["layer_0"]["kernel"] = jnp.array([[0.15, 1.0, 2.0, 8.85]] * 2)  # mean 3
    tx = attach_reset_method(tx=optax.sgd(0.1), reset_method=NoReset())
    state = tx.init(params)
    for _ in range(2):
        _, state = tx.update(grads, state, params)
    expected = np.zeros(BINS)
    expected[[0, 3, 6, 29]] = 2  # 0.05, 1/3, 2/3 and 2.95, twice
    np.testing.assert_array_equal(state.log.histogram[0], expected)
    off = attach_reset_method(tx=optax.sgd(0.1), reset_method=NoReset(), histogram=False)
    assert off.init(params).log.histogram.shape == (1, 0)


def test_without_histogram_no_reset_costs_nothing(mlp):
    params = mlp()
    inner = optax.adam(1e-3)
    tx = attach_reset_method(tx=inner, reset_method=NoReset(), histogram=False)
    state = tx.init(params)

    def size(update, state):
        jaxpr = jax.make_jaxpr(lambda s: update(params, s, params))(state)
        return len(jaxpr.eqns)

    # A counter is all there is.
    assert size(tx.update, state) <= size(inner.update, state.inner) + 3


@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf])
@pytest.mark.parametrize("name", ["cpr", "cbp", "redo", "regrama"])
def test_what_is_not_finite_is_skipped_and_counted(name, bad, mlp, forward):
    """One step with a bad gradient and bad features in the first layer."""
    params = mlp()
    x = jax.random.normal(jax.random.key(7), (8, 5))
    method = dataclasses.replace(METHODS[name], **({"every": 1} if name != "cbp" else {}))
    inner = optax.sgd(0.0)  # so that parameters stay finite
    tx = attach_reset_method(tx=optax.chain(optax.zero_nans(), inner), reset_method=method)
    grads = jax.grad(lambda p: jnp.sum(forward(p, x)[0] ** 2))(params)
    _, features = forward(params, x)
    update = jax.jit(tx.update)
    state = tx.init(params)
    for _ in range(2):
        _, state = update(grads, state, params, features=features)
    before = state
    worse = jax.tree.map(lambda g: g, grads)
    worse["layer_0"]["kernel"] = worse["layer_0"]["kernel"].at[0, 0].set(bad)
    broken = {**features, "layer_0/kernel": features["layer_0/kernel"].at[0, 0].set(bad)}
    _, state = update(worse, state, params, features=broken)
    np.testing.assert_array_equal(state.log.skipped, [1, 0])
    if name in ("redo", "regrama"):  # nothing of that layer is reset
        assert state.log.amount[0] == 0 and state.log.amount[1] > 0
    else:
        for field in state.method._fields:
            assert np.isfinite(getattr(state.method, field)).all()
    if name == "cbp":
        np.testing.assert_array_equal(state.method.age[0, :6] > before.method.age[0, :6], False)
    # Later steps are as if it had not been: scores are finite and the counter stands still.
    _, state = update(grads, state, params, features=features)
    np.testing.assert_array_equal(state.log.skipped, [1, 0])
    assert np.isfinite(state.log.numbers).all()
    assert (state.log.histogram >= 0).all()


def test_updates_cannot_undo_a_weight_that_is_not_finite_but_harm_no_other(mlp):
    params = mlp((3, 4, 2))
    params["layer_0"]["kernel"] = params["layer_0"]["kernel"].at[0, 1].set(jnp.nan)
    features = {"layer_0/kernel": jnp.array([[1.0, 0.0, 1.0, 1.0]])}
    tx = attach_reset_method(tx=optax.adam(0.0), reset_method=ReDo(0.0, 1))
    state = tx.init(params)
    for _ in range(2):
        grads = jax.tree.map(jnp.zeros_like, params)
        updates, state = tx.update(grads, state, params, features=features)
    # p + (p' − p) is NaN where p is: an Optax transformation can return updates only.
    assert np.isnan(optax.apply_updates(params, updates)["layer_0"]["kernel"][0, 1])
    assert np.isfinite(updates["layer_1"]["kernel"]).all()


def test_a_method_that_changes_every_step_instead_of_resetting():
    """`wrap` gets the inner optimizer and the graph; there is no branch, and an empty log."""

    @reset_method
    class Halved(ResetMethod):
        factor: float = 0.5
        resets = False

        def wrap(self, tx, units):
            def update(updates, state, params=None, **extra):
                assert units(params).layers
                updates, state = tx.update(updates, state, params, **extra)
                return jax.tree.map(lambda u: self.factor * u, updates), state

            return optax.GradientTransformationExtraArgs(tx.init, update)

    params = {"a": jnp.ones((3, 4)), "b": jnp.ones((4, 2))}
    graph = sequential_units(params, ["a", "b"])
    grads = jax.tree.map(jnp.ones_like, params)
    tx = attach_reset_method(tx=optax.sgd(1.0), reset_method=Halved(), units=graph)
    updates, state = tx.update(grads, tx.init(params), params)
    assert all(bool((u == -0.5).all()) for u in jax.tree.leaves(updates))
    assert not state.log.resets.any()
    assert "cond" not in str(jax.make_jaxpr(tx.update)(grads, state, params))
