"""What Optax asks of a transformation (its contrib/_common_test.py), asked of every method."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.optim import ShrinkAndPerturb, attach_reset_method, recognize_units
from tests.optim.rollouts import (
    METHODS,
    STEPS,
    assert_close,
    assert_equal,
    assert_resets,
    attach,
    every_method,
    fresh,
    inner,
    jit,
    network,
    run,
    shapes,
    stateful_method,
    stream,
    types,
    unit_method,
)


@functools.cache
def lived(name):
    """A compiled step and all it went through."""
    tx = attach(name, optax.adam(1e-2))
    params = network()
    data = stream(params)

    @jit
    def step(params, state, now):
        grads, features = now
        updates, state = tx.update(grads, state, params, features=features, unexpected=jnp.ones(3))
        return optax.apply_updates(params, updates), state, updates

    history = [(params, tx.init(params), None)]
    for t in range(STEPS):
        history.append(step(*history[-1][:2], jax.tree.map(lambda x, t=t: x[t], data)))
    # Counted here, since a worker that has grown drops its programs between two tests.
    return tx, step, data, history, step._cache_size()


@every_method
def test_unexpected_extra_arguments_are_accepted(name):
    _, _, _, history, _ = lived(name)
    _, state, _ = history[-1]
    assert state.calls == STEPS
    assert_resets(name, state)


@every_method
def test_a_step_is_compiled_once(name):
    *_, programs = lived(name)
    assert programs == 1


@every_method
def test_types_of_the_state_never_change(name):
    _, _, _, history, _ = lived(name)
    params, state, _ = history[0]
    for later_params, later_state, updates in history[1:]:
        assert types(later_params) == types(params)
        assert types(later_state) == types(state)
        assert types(updates) == types(params)
    assert not any(leaf.weak_type for leaf in jax.tree.leaves(types(state)))


@every_method
def test_a_state_restored_from_arrays_continues_bit_for_bit(name):
    tx, step, data, history, _ = lived(name)
    params, state, _ = history[2]
    saved = [np.asarray(leaf) for leaf in jax.tree.leaves((params, state))]
    template = jax.eval_shape(lambda p: (p, tx.init(p)), network())
    restored = jax.tree.unflatten(jax.tree.structure(template), map(jnp.asarray, saved))
    assert types(restored) == types((params, state))
    params, state = restored
    for t in range(2, STEPS):
        params, state, _ = step(params, state, jax.tree.map(lambda x, t=t: x[t], data))
    assert_equal((params, state), history[-1][:2])
    assert step._cache_size() == 1


@stateful_method
def test_initializing_in_a_compiled_function_gives_the_same_state(name):
    tx, _, _, history, _ = lived(name)
    state = jit(tx.init)(network())
    assert_close(state, history[0][1])
    assert types(state) == types(history[0][1])


@every_method
def test_map_params_finds_the_parameter_copies(name):
    tx, _, _, history, _ = lived(name)
    params, state, _ = history[-1]
    assert_equal(optax.tree.map_params(tx, lambda v: v, state), state)
    specs = jax.tree.map(lambda p: f"spec of {p.shape}", params)
    mapped = optax.tree.map_params(
        tx, lambda _, spec: spec, state, specs, transform_non_params=lambda _: None
    )
    assert mapped.inner[0].mu == mapped.inner[0].nu == specs
    rest = mapped._replace(inner=mapped.inner[0]._replace(mu=None, nu=None))
    copies, one = jax.tree.leaves(rest), jax.tree.leaves(specs)
    assert copies == one * (len(copies) // len(one))  # whole copies, of DASH one


@every_method
def test_map_params_through_wrappers(name):
    params = network()
    graph = recognize_units(params)
    kernels = jax.tree.map(lambda p: p.ndim == 2, params)
    masked = optax.masked(attach(name), kernels)
    accumulated = optax.MultiSteps(attach(name), 2).gradient_transformation()
    given = attach_reset_method(tx=inner(), reset_method=METHODS[name], units=graph)
    for tx in (masked, accumulated, given, optax.chain(optax.clip(1.0), attach(name))):
        state = tx.init(params)
        assert_equal(optax.tree.map_params(tx, lambda v: v, state), state)


def now_and_then(tx, params, state, data):
    """A scan in which call 3 is passed over by a conditional, and all updates."""

    def step(carry, now):
        params, state, t = carry
        grads, features = now
        updates, state = jax.lax.cond(
            t != 3,
            lambda: tx.update(grads, state, params, features=features),
            lambda: (optax.tree.zeros_like(params), state),
        )
        return (optax.apply_updates(params, updates), state, t + 1), updates

    (params, state, _), updates = jax.lax.scan(step, (params, state, 0), data)
    return params, state, updates


@every_method
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_update_inside_cond_and_scan_keeps_types(name, dtype):
    with jax.enable_x64(dtype == "float64"):
        params = network(dtype=dtype)
        tx = attach(name)
        state = jax.eval_shape(tx.init, params)
        new, after, updates = jax.eval_shape(
            functools.partial(now_and_then, tx), params, state, stream(params)
        )
        assert shapes(new) == shapes(params)
        assert shapes(after) == shapes(state)
        assert {u.dtype for u in jax.tree.leaves(updates)} == {jnp.dtype(dtype)}


@pytest.mark.parametrize("name", ["CPR", "CBP", "ReGraMa"])
def test_update_inside_cond_and_scan_in_half_precision(name):
    params = network(dtype=jnp.float16)
    tx = attach(name)
    state = tx.init(params)
    new, after, _ = jit(functools.partial(now_and_then, tx))(params, state, stream(params))
    assert types(new) == types(params)
    assert types(after) == types(state)
    assert all(jnp.isfinite(p).all() for p in jax.tree.leaves(new))
    assert after.calls == STEPS - 1
    assert_resets(name, after)


def test_a_reset_is_exact_where_gradients_have_less_precision_than_parameters():
    params = network()
    grads, features = stream(params)
    grads = jax.tree.map(lambda g: g.astype(jnp.bfloat16), grads)
    method = dataclasses.replace(METHODS["ReDo"], every=STEPS - 1)
    tx = attach_reset_method(tx=optax.sgd(0.05), reset_method=method)
    new, state = run(tx, params, (grads, features))
    np.testing.assert_array_equal(state.log.total, 1)
    np.testing.assert_array_equal(new["layer_1"]["kernel"][0], 0)
    np.testing.assert_array_equal(new["layer_0"]["bias"][0], 0)


@every_method
@pytest.mark.parametrize(
    "params",
    [jnp.array([-1.0, 10.0, 1.0]), jnp.array(2.0), (jnp.ones(3), {"scale": jnp.ones(())}), {}],
    ids=["vector", "scalar", "tuple", "empty"],
)
def test_parameters_without_kernels_are_left_to_the_inner_optimizer(name, params):
    tx, alone = attach(name), inner()
    state, alone_state = tx.init(params), alone.init(params)
    for _ in range(3):  # no branch, hence nothing to compile
        updates, state = tx.update(params, state, params)
        expected, alone_state = alone.update(params, alone_state, params)
        assert_equal(updates, expected)
        assert_equal(state.inner, alone_state)
    assert state.calls == 3


@unit_method
def test_a_kernel_without_hidden_units_is_left_to_the_inner_optimizer(name):
    params = {"kernel": jnp.ones((3, 2)), "bias": jnp.ones(2)}
    tx, alone = attach(name), inner()
    state, alone_state = tx.init(params), alone.init(params)
    for _ in range(3):
        updates, state = tx.update(params, state, params)
        expected, alone_state = alone.update(params, alone_state, params)
        assert_equal(updates, expected)


def test_shrink_and_perturb_acts_on_a_kernel_without_hidden_units():
    params = {"kernel": jnp.ones((3, 2)), "bias": jnp.ones(2)}
    zero = optax.tree.zeros_like(params)
    tx = attach_reset_method(
        tx=optax.sgd(0.1),
        reset_method=ShrinkAndPerturb(shrink=0.25, perturb=0.0, every=1, init=fresh),
    )
    updates, _ = tx.update(zero, tx.init(params), params)
    assert_close(optax.apply_updates(params, updates), jax.tree.map(lambda p: 0.75 * p, params))
