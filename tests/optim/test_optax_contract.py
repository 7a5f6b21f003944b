"""What Optax asks of a transformation (its contrib/_common_test.py), asked of every method."""

import dataclasses
import functools
import itertools
import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.optim import (
    CBP,
    CPR,
    NoReset,
    ReDo,
    ReGraMa,
    ShrinkAndPerturb,
    attach_reset_method,
    recognise_units,
)

SIZES = (4, 6, 5, 2)
STEPS = 5
UNITS = ("layer_0/kernel", "layer_1/kernel")
HEAD = "layer_2"

# Everything here compiles far longer than it runs.
jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


def fresh(key, shape, dtype):
    """Depends on the key as any initialiser does, and compiles in no time."""
    offset = (jax.random.key_data(key)[-1] % jnp.uint32(101)).astype(jnp.float32)
    place = jnp.arange(np.prod(shape), dtype=jnp.float32).reshape(shape)
    return ((7 * place + offset) % 11 / 11 - 0.5).astype(dtype)


METHODS = {
    "CPR": CPR(max_reset=0.3, decay=0.5, every=2, init=fresh),
    "CBP": CBP(replacement_rate=0.3, maturity=1, decay=0.5, init=fresh),
    "ReDo": ReDo(threshold=0.1, every=2, init=fresh),
    "ReGraMa": ReGraMa(threshold=0.1, every=2, init=fresh),
    "ShrinkAndPerturb": ShrinkAndPerturb(shrink=0.1, perturb=0.05, every=2, init=fresh),
    "NoReset": NoReset(),
}
every_method = pytest.mark.parametrize("name", METHODS)
unit_method = pytest.mark.parametrize("name", ["CPR", "CBP", "ReDo", "ReGraMa"])
stateful_method = pytest.mark.parametrize("name", ["CPR", "CBP"])


def inner():
    return optax.sgd(0.05, momentum=0.9)


def attach(name, tx=None):
    return attach_reset_method(tx=tx or inner(), reset_method=METHODS[name])


def network(seed=0, dtype=jnp.float32, sizes=SIZES):
    rng = np.random.default_rng(seed)
    return {
        f"layer_{i}": {
            "kernel": jnp.asarray(rng.normal(size=(a, b)) / np.sqrt(a), dtype),
            "bias": jnp.asarray(rng.normal(size=b), dtype),
        }
        for i, (a, b) in enumerate(itertools.pairwise(sizes))
    }


def stream(params, seed=0, steps=STEPS, units=UNITS):
    """Gradients and features [steps, …]; unit `seed` of each hidden layer has little of either."""
    rng = np.random.default_rng(100 + seed)
    grads = jax.tree.map(lambda p: rng.normal(size=(steps, *p.shape)), params)
    features = {}
    for i, name in enumerate(units):
        layer = grads[f"layer_{i}"]["kernel"]
        features[name] = np.abs(rng.normal(size=(steps, 3, layer.shape[-1])))
        layer[..., seed] *= 1e-3
        features[name][..., seed] *= 1e-3
    dtype = jax.tree.leaves(params)[0].dtype
    return jax.tree.map(lambda x: x.astype(dtype), (grads, features))


def rollout(tx, params, data):
    """Parameters and state after all steps; `data` is (gradients, features), [steps, …] each."""

    def step(carry, now):
        params, state = carry
        grads, features = now
        updates, state = tx.update(grads, state, params, features=features)
        return (optax.apply_updates(params, updates), state), None

    return jax.lax.scan(step, (params, tx.init(params)), data)[0]


def run(tx, params, data):
    return jit(functools.partial(rollout, tx))(params, data)


@functools.cache
def compiled(name):
    return jit(functools.partial(rollout, attach(name)))


@functools.cache
def plain(name):
    """What the method does to the network of seed 0 with nothing wrapped around it."""
    params = network()
    params, state = compiled(name)(params, stream(params))
    assert_resets(name, state)
    return params, state


@functools.cache
def bare():
    """The same without a method."""
    params = network()
    return run(inner(), params, stream(params))


def assert_resets(name, state):
    if name == "NoReset":
        np.testing.assert_array_equal(state.log.numbers, 0)
    else:
        assert (state.log.resets >= 1).all()
        assert (state.log.total > 0).all()


def assert_close(actual, expected, rtol=1e-5, atol=1e-6):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    compare = functools.partial(np.testing.assert_allclose, rtol=rtol, atol=atol)
    jax.tree.map(compare, actual, expected)


def assert_equal(actual, expected):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    jax.tree.map(np.testing.assert_array_equal, actual, expected)


def types(tree):
    return jax.tree.map(jax.typeof, tree)


def shapes(tree):
    return jax.tree.map(lambda x: (x.shape, x.dtype, x.weak_type), tree)


# One optimizer, called as users call it ------------------------------------------------------


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
    return tx, step, data, history


@every_method
def test_unexpected_extra_arguments_are_accepted(name):
    _, _, _, history = lived(name)
    _, state, _ = history[-1]
    assert state.calls == STEPS
    assert_resets(name, state)


@every_method
def test_a_step_is_compiled_once(name):
    _, step, _, _ = lived(name)
    assert step._cache_size() == 1


@every_method
def test_types_of_the_state_never_change(name):
    _, _, _, history = lived(name)
    params, state, _ = history[0]
    for later_params, later_state, updates in history[1:]:
        assert types(later_params) == types(params)
        assert types(later_state) == types(state)
        assert types(updates) == types(params)
    assert not any(leaf.weak_type for leaf in jax.tree.leaves(types(state)))


@every_method
def test_a_state_restored_from_arrays_continues_bit_for_bit(name):
    tx, step, data, history = lived(name)
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
def test_initialising_in_a_compiled_function_gives_the_same_state(name):
    tx, _, _, history = lived(name)
    state = jit(tx.init)(network())
    assert_close(state, history[0][1])
    assert types(state) == types(history[0][1])


@every_method
def test_map_params_finds_the_parameter_copies(name):
    tx, _, _, history = lived(name)
    params, state, _ = history[-1]
    assert_equal(optax.tree.map_params(tx, lambda v: v, state), state)
    specs = jax.tree.map(lambda p: f"spec of {p.shape}", params)
    mapped = optax.tree.map_params(
        tx, lambda _, spec: spec, state, specs, transform_non_params=lambda _: None
    )
    assert mapped.inner[0].mu == mapped.inner[0].nu == specs
    rest = mapped._replace(inner=mapped.inner[0]._replace(mu=None, nu=None))
    assert jax.tree.leaves(rest) == []


@every_method
def test_map_params_through_wrappers(name):
    params = network()
    graph = recognise_units(params)
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


# Inside and around other transformations -----------------------------------------------------


@pytest.mark.parametrize("name", ["CPR", "CBP", "ReDo", "ShrinkAndPerturb"])
def test_masked_subtrees_and_biases(name):
    params = network()
    grads, features = stream(params)
    other = {"w": jnp.ones((2, 3)), "v": jnp.ones(3)}
    both = {"body": params, "other": other}
    data = (
        {"body": grads, "other": jax.tree.map(lambda p: np.stack([p] * STEPS), other)},
        {f"body/{k}": v for k, v in features.items()},
    )
    mask = {"body": jax.tree.map(lambda p: p.ndim == 2, params), "other": False}
    new, state = run(optax.masked(attach(name), mask), both, data)
    assert_resets(name, state.inner_state)
    expected, _ = plain(name)
    for layer, old in params.items():
        # Each weight's update depends on its own gradients alone, so masked biases change nothing.
        assert_close(new["body"][layer]["kernel"], expected[layer]["kernel"])
        # What is masked passes as it came.
        assert_close(new["body"][layer]["bias"], old["bias"] + grads[layer]["bias"].sum(0))
    assert_close(new["other"], jax.tree.map(lambda p: p * (STEPS + 1), other))


@pytest.mark.parametrize("name", ["CPR", "CBP", "ShrinkAndPerturb"])
def test_a_masked_head_and_the_units_that_feed_it_stay(name):
    params = network()
    grads, features = stream(params)
    head = {"layer_0": True, "layer_1": True, HEAD: False}
    whole = attach_reset_method(
        tx=inner(), reset_method=METHODS[name], units=recognise_units(params)
    )
    new, state = run(optax.masked(whole, head), params, (grads, features))
    assert_resets(name, state.inner_state)

    body = {k: v for k, v in params.items() if k != HEAD}
    body_grads = {k: v for k, v in grads.items() if k != HEAD}
    alone, _ = run(attach(name), body, (body_grads, {UNITS[0]: features[UNITS[0]]}))
    assert_close({k: v for k, v in new.items() if k != HEAD}, alone)
    assert_close(new[HEAD], jax.tree.map(lambda p, g: p + g.sum(0), params[HEAD], grads[HEAD]))

    if name != "ShrinkAndPerturb":
        # A reset of units of layer_1 would need the head's kernel: only what reads layer_0 changes.
        untouched, _ = bare()
        if name != "CBP":  # which transfers to the biases of the readers
            assert_close(new["layer_1"]["bias"], untouched["layer_1"]["bias"])
        reset = ~np.isclose(new["layer_1"]["kernel"], untouched["layer_1"]["kernel"])
        assert (reset.all(axis=1) | ~reset.any(axis=1)).all()


@unit_method
def test_a_network_whose_only_reader_is_masked_is_left_to_the_inner_optimizer(name):
    params = network(sizes=(4, 6, 2))
    mask = {"layer_0": True, "layer_1": False}
    tx, alone = optax.masked(attach(name), mask), optax.masked(inner(), mask)
    state, alone_state = tx.init(params), alone.init(params)
    for _ in range(3):
        updates, state = tx.update(params, state, params)
        expected, alone_state = alone.update(params, alone_state, params)
        assert_equal(updates, expected)
        assert_equal(state.inner_state.inner, alone_state.inner_state)


def two_networks():
    params = {"actor": network(0), "critic": network(1)}
    streams = {name: stream(p) for name, p in params.items()}
    grads = {name: g for name, (g, _) in streams.items()}
    features = {f"{n}/{k}": v for n, (_, f) in streams.items() for k, v in f.items()}
    return params, grads, features, {"actor": "a", "critic": "c"}


@functools.cache
def bare_critic():
    params, grads, _, _ = two_networks()
    return run(inner(), params["critic"], (grads["critic"], {}))[0]


def test_multi_transform_treats_each_group_as_if_it_were_alone():
    name = "CPR"
    params, grads, _, labels = two_networks()
    tx = optax.multi_transform({"a": attach(name), "c": inner()}, labels)
    new, state = run(tx, params, (grads, {}))
    assert_resets(name, state.inner_states["a"].inner_state)
    assert_close(new["actor"], plain(name)[0])
    assert_close(new["critic"], bare_critic())


def test_multi_transform_of_two_methods_draws_differently_for_each_group():
    params, grads, _, labels = two_networks()
    params["critic"] = jax.tree.map(lambda p: p + 1, params["actor"])
    grads = jax.tree.map(np.zeros_like, grads)
    method = ShrinkAndPerturb(shrink=0.0, perturb=1.0, every=1, init=fresh)
    tx = optax.multi_transform(
        {k: attach_reset_method(tx=inner(), reset_method=method) for k in "ac"}, labels
    )
    new, _ = run(tx, params, (grads, {}))
    drawn = jax.tree.map(lambda new, old: new - old, new, params)
    for layer in drawn["actor"]:
        assert not np.allclose(drawn["actor"][layer]["kernel"], drawn["critic"][layer]["kernel"])


@pytest.mark.parametrize(("name", "other"), [("CBP", inner()), ("ReDo", attach("ReDo"))])
def test_multi_transform_hands_each_group_its_own_features(name, other):
    params, grads, features, labels = two_networks()
    tx = optax.multi_transform({"a": attach(name), "c": other}, labels)
    new, _ = run(tx, params, (grads, features))
    assert_close(new["actor"], plain(name)[0])


def test_attached_inside_a_chain():
    name = "CBP"
    params = network()
    grads, features = stream(params)
    tx = optax.chain(optax.scale(0.5), attach(name), optax.identity())
    new, state = run(tx, params, (jax.tree.map(lambda g: 2 * g, grads), features))
    expected, expected_state = plain(name)
    assert_close(new, expected)
    assert_close(state[1], expected_state)


@pytest.mark.parametrize("name", ["CPR", "ReGraMa"])
def test_a_chain_inside_is_scored_by_raw_gradients(name):
    params = network()
    data = stream(params)
    chain = optax.chain(optax.clip(1e-4), optax.trace(0.9), optax.scale(-0.05))
    _, state = run(attach(name, chain), params, data)
    assert_resets(name, state)
    _, unclipped = plain(name)
    assert_close(state.log, unclipped.log)
    assert_close(state.method, unclipped.method)


def cpr(learning_rate, max_reset):
    method = CPR(max_reset=max_reset, decay=0.5, every=2, init=fresh)
    return attach_reset_method(tx=optax.sgd(learning_rate, momentum=0.9), reset_method=method)


def test_injected_hyperparameters_equal_plain_ones():
    params = network()
    tx = optax.inject_hyperparams(cpr)(learning_rate=0.05, max_reset=0.3)
    new, state = run(tx, params, stream(params))
    expected, expected_state = plain("CPR")
    assert_close(new, expected)
    assert_close(state.inner_state, expected_state)
    assert state.hyperparams["max_reset"] == jnp.float32(0.3)


def test_an_injected_hyperparameter_can_be_changed_in_the_state():
    params = network()
    tx = optax.inject_hyperparams(cpr)(learning_rate=0.05, max_reset=0.3)

    def without_resets(params, data):
        state = tx.init(params)
        state.hyperparams["max_reset"] = jnp.zeros(())
        changed = optax.GradientTransformationExtraArgs(lambda _: state, tx.update)
        return rollout(changed, params, data)

    new, state = jit(without_resets)(params, stream(params))
    assert_close(new, bare()[0])
    np.testing.assert_array_equal(state.inner_state.log.resets, 2)


def test_a_schedule_of_max_reset_is_read_at_every_step():
    params = network()
    data = stream(params)

    def schedule(count):  # resets fall on calls 2 and 4
        return jnp.where(count < 3, 0.0, 0.5)

    def by_hand(grads, state, params, **extra):
        return cpr(0.05, schedule(state.calls)).update(grads, state, params, **extra)

    tx = optax.inject_hyperparams(cpr)(learning_rate=0.05, max_reset=schedule)
    new, state = run(tx, params, data)
    expected = optax.GradientTransformationExtraArgs(cpr(0.05, 0.0).init, by_hand)
    assert_close((new, state.inner_state), run(expected, params, data))
    np.testing.assert_array_equal(state.inner_state.log.resets, 2)
    np.testing.assert_array_equal(state.inner_state.log.total, state.inner_state.log.amount)
    assert (state.inner_state.log.total > 0).all()


@pytest.mark.parametrize("name", ["CPR", "CBP", "ReDo", "ShrinkAndPerturb"])
def test_accumulated_gradients_count_as_one_step(name):
    params = network()
    data = stream(params)
    tx = optax.MultiSteps(attach(name), every_k_schedule=2)
    grads, features = jax.tree.map(lambda x: np.repeat(x, 2, axis=0), data)
    for g in jax.tree.leaves(grads):  # two unequal halves of each gradient, whose mean it is
        g[0::2] *= 0.5
        g[1::2] *= 1.5
    new, state = run(tx, params, (grads, features))
    expected, expected_state = plain(name)
    assert state.inner_opt_state.calls == state.gradient_step == STEPS
    assert_close(new, expected)
    assert_close(state.inner_opt_state, expected_state)


def test_accumulation_inside_counts_every_call():
    params = network()
    data = stream(params)
    tx = attach("CPR", optax.MultiSteps(inner(), 10).gradient_transformation())
    new, state = run(tx, params, data)
    assert state.calls == STEPS
    np.testing.assert_array_equal(state.log.resets, 2)
    assert_close(state.inner.acc_grads, jax.tree.map(lambda g: g.mean(0), data[0]))
    # No step was taken, but units were reset.
    assert_close(new[HEAD]["bias"], params[HEAD]["bias"])
    assert not np.allclose(new["layer_0"]["kernel"], params["layer_0"]["kernel"])


def test_apply_if_finite_leaves_out_bad_steps():
    name = "CPR"
    params = network()
    data = stream(params)
    grads, features = jax.tree.map(lambda x: np.insert(x, 2, x[2], axis=0), data)
    grads["layer_0"]["kernel"][2, 0, 0] = np.nan
    new, state = run(optax.apply_if_finite(attach(name), 3), params, (grads, features))
    assert state.total_notfinite == 1
    expected, expected_state = plain(name)
    assert_close(new, expected)
    assert_close(state.inner_state, expected_state)


def test_apply_if_finite_inside():
    params = network()
    grads, features = stream(params)
    grads["layer_0"]["kernel"][1, 0, 0] = np.nan
    new, state = run(attach("CPR", optax.apply_if_finite(inner(), 3)), params, (grads, features))
    assert state.calls == STEPS
    assert state.inner.total_notfinite == 1
    np.testing.assert_array_equal(state.log.skipped, [1, 0])
    assert all(jnp.isfinite(p).all() for p in jax.tree.leaves(new))


@stateful_method
def test_flax_train_state(name):
    train_state = pytest.importorskip("flax.training.train_state")
    params = network()
    data = stream(params)

    @jit
    def train(params, data):
        state = train_state.TrainState.create(apply_fn=None, params=params, tx=attach(name))

        def step(state, now):
            grads, features = now
            if name not in ("CBP", "ReDo"):
                return state.apply_gradients(grads=grads), None
            # apply_gradients has no way to hand on features.
            updates, opt_state = state.tx.update(
                grads, state.opt_state, state.params, features=features
            )
            params = optax.apply_updates(state.params, updates)
            return state.replace(step=state.step + 1, params=params, opt_state=opt_state), None

        return jax.lax.scan(step, state, data)[0]

    state = train(params, data)
    assert_close((state.params, state.opt_state), plain(name))
    assert state.step == STEPS


# Many at once --------------------------------------------------------------------------------


OTHER = {
    "CPR": {"max_reset": 0.1, "sharpness": 1.0, "decay": 0.9, "every": 3},
    "CBP": {"replacement_rate": 0.2, "decay": 0.9, "maturity": 3},
    "ReDo": {"threshold": 0.9, "every": 1},
    "ReGraMa": {"threshold": 1.0, "every": 1},
    "ShrinkAndPerturb": {"shrink": 0.5, "perturb": 0.1, "every": 1},
    "NoReset": {},
}


def with_numbers(name, numbers, params, data):
    method = dataclasses.replace(METHODS[name], **numbers)
    return rollout(attach_reset_method(tx=inner(), reset_method=method), params, data)


@functools.cache
def lanes(name):
    """Lanes 0, 1, 2 are seeds with the usual numbers, lane 3 is seed 0 with `OTHER` numbers."""
    params = [network(seed) for seed in (0, 1, 2, 0)]
    data = [stream(p, seed) for p, seed in zip(params, (0, 1, 2, 0), strict=True)]
    numbers = {k: np.array([*[getattr(METHODS[name], k)] * 3, v]) for k, v in OTHER[name].items()}
    stacked = jax.tree.map(lambda *x: np.stack(x), *zip(params, data, strict=True))
    together = jit(jax.vmap(functools.partial(with_numbers, name)))(numbers, *stacked)
    return params, data, [jax.tree.map(lambda x, i=i: x[i], together) for i in range(4)]


@every_method
def test_vmap_over_seeds_equals_a_loop(name):
    params, data, together = lanes(name)
    for seed in range(3):
        assert_close(together[seed], compiled(name)(params[seed], data[seed]))
        assert_resets(name, together[seed][1])
    assert len({tuple(np.asarray(state.key)) for _, state in together[:3]}) == 3


@pytest.mark.parametrize("name", [name for name in METHODS if name != "NoReset"])
def test_vmap_over_hyperparameters_equals_constants(name):
    params, data, together = lanes(name)
    constant = jit(functools.partial(with_numbers, name, OTHER[name]))(params[3], data[3])
    assert_close(together[3], constant)
    assert not np.allclose(together[3][0]["layer_0"]["kernel"], together[0][0]["layer_0"]["kernel"])


def test_vmap_over_the_limit_of_a_layer_counts_units():
    params = network()
    grads, _ = stream(params)

    def replaced(fraction):
        method = ReGraMa(threshold=9.0, every=1, max_reset_fraction=fraction, init=fresh)
        return rollout(attach_reset_method(tx=inner(), reset_method=method), params, (grads, {}))

    _, state = jit(jax.vmap(replaced))(np.array([0.0, 0.2, 0.5, 1.0]))
    np.testing.assert_array_equal(state.log.amount, [[0, 0], [1, 1], [3, 2], [6, 5]])


SHARDED = """
    import jax, jax.numpy as jnp, numpy as np, optax, traceback
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
    from continual_learning.optim import CBP, attach_reset_method

    rng = np.random.default_rng(0)
    params = {
        f"layer_{i}": {"kernel": rng.normal(size=(a, b)), "bias": rng.normal(size=b)}
        for i, (a, b) in enumerate([(3, 8), (8, 4), (4, 2)])
    }
    features = {f"layer_{i}/kernel": rng.normal(size=(4, n)) for i, n in enumerate((8, 4))}
    params, features = jax.tree.map(jnp.float32, (params, features))
    split = {
        "layer_0": {"kernel": P(None, "d"), "bias": P("d")},
        "layer_1": {"kernel": P("d", None), "bias": P()},
        "layer_2": {"kernel": P(), "bias": P()},
    }
    method = CBP(replacement_rate=0.4, maturity=0, init=jax.nn.initializers.constant(0.5))
    tx = attach_reset_method(tx=optax.sgd(0.1, momentum=0.9), reset_method=method)

    @jax.jit
    def train(params, state, features):
        def step(carry, _):
            params, state = carry
            grads = jax.tree.map(jnp.sin, params)
            updates, state = tx.update(grads, state, params, features=features)
            return (optax.apply_updates(params, updates), state), None

        return jax.lax.scan(step, (params, state), length=3)[0]

    one = train(params, tx.init(params), features)

    def check(axis_type, specs, batch):
        mesh = jax.make_mesh((4,), ("d",), axis_types=(axis_type,))
        shardings = jax.tree.map(lambda s: NamedSharding(mesh, s), specs)
        sharded = jax.device_put(params, shardings)
        given = jax.device_put(features, NamedSharding(mesh, batch))
        many = train(sharded, tx.init(sharded), given)
        assert (many[1].log.resets >= 1).all()
        close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        jax.tree.map(close, many, one)
        for tree in (many[0], many[1].inner[0].trace):
            for layer, leaf in (("layer_0", "kernel"), ("layer_0", "bias"), ("layer_1", "kernel")):
                x, expected = tree[layer][leaf], shardings[layer][leaf]
                assert x.sharding.is_equivalent_to(expected, x.ndim), (x.sharding, expected)

    assert jax.device_count() == 4
    whole = jax.tree.map(lambda _: P(), split)
    for case in (
        (AxisType.Auto, split, P()),
        (AxisType.Explicit, whole, P("d")),
        (AxisType.Explicit, split, P()),
    ):
        try:
            check(*case)
            print("same numbers")
        except Exception as error:
            print(repr(error).replace(chr(10), " "))
"""


@functools.cache
def on_four_devices():
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    environment = {
        **os.environ,
        "XLA_FLAGS": f"{flags} --xla_backend_optimization_level=0",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SHARDED)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_sharded_parameters_give_the_same_numbers_and_keep_their_shardings():
    assert on_four_devices()[0] == "same numbers"


def test_a_sharded_batch_of_features_with_shardings_in_types():
    assert on_four_devices()[1] == "same numbers"


def test_sharded_parameters_with_shardings_in_types():
    assert on_four_devices()[2] == "same numbers"


def test_a_mild_cpr_still_converges():
    x = jax.random.normal(jax.random.key(0), (32, 4))
    y = jnp.sin(x[:, :2]) + 0.5 * x[:, 2:]

    def loss(params):
        hidden = x
        for i in range(2):
            layer = params[f"layer_{i}"]
            hidden = jnp.tanh(hidden @ layer["kernel"] + layer["bias"][None])
        head = params[HEAD]
        return jnp.mean((hidden @ head["kernel"] + head["bias"][None] - y) ** 2)

    @jit
    def train(params):
        tx = attach_reset_method(tx=optax.adam(1e-2), reset_method=CPR(max_reset=0.005, every=50))

        def step(carry, _):
            params, state = carry
            value, grads = jax.value_and_grad(loss)(params)
            updates, state = tx.update(grads, state, params)
            return (optax.apply_updates(params, updates), state), value

        return jax.lax.scan(step, (params, tx.init(params)), length=1500)

    (_, state), losses = train(network(sizes=(4, 16, 16, 2)))
    np.testing.assert_array_equal(state.log.resets, 29)
    assert losses[0] > 1
    assert losses[-1] < 0.02
