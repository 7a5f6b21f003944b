"""Inside and around other transformations."""

import functools
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from continual_learning.optim import (
    CPR,
    ReGraMa,
    ShrinkAndPerturb,
    attach_reset_method,
    recognize_units,
)
from tests.optim.rollouts import (
    HEAD,
    METHODS,
    STEPS,
    UNITS,
    assert_close,
    assert_equal,
    assert_resets,
    attach,
    bare,
    fresh,
    inner,
    jit,
    network,
    plain,
    rollout,
    run,
    stateful_method,
    stream,
    unit_method,
)

WITHOUT_UNITS = ("ShrinkAndPerturb", "LayerReset", "FIRE", "DASH")
PAGE = Path(__file__).parents[2] / "docs" / "add_cpr.md"


@pytest.mark.parametrize("name", ["CPR", "CBP", "ReDo", *WITHOUT_UNITS])
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


@pytest.mark.parametrize("name", ["CPR", "CBP", *WITHOUT_UNITS])
def test_a_masked_head_and_the_units_that_feed_it_stay(name):
    params = network()
    grads, features = stream(params)
    head = {"layer_0": True, "layer_1": True, HEAD: False}
    whole = attach_reset_method(
        tx=inner(), reset_method=METHODS[name], units=recognize_units(params)
    )
    new, state = run(optax.masked(whole, head), params, (grads, features))
    assert_resets(name, state.inner_state)

    body = {k: v for k, v in params.items() if k != HEAD}
    body_grads = {k: v for k, v in grads.items() if k != HEAD}
    alone, _ = run(attach(name), body, (body_grads, {UNITS[0]: features[UNITS[0]]}))
    assert_close({k: v for k, v in new.items() if k != HEAD}, alone)
    assert_close(new[HEAD], jax.tree.map(lambda p, g: p + g.sum(0), params[HEAD], grads[HEAD]))

    if name not in WITHOUT_UNITS:
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
    """CBP and ReDo with the subclass that the page on loops has."""
    train_state = pytest.importorskip("flax.training.train_state")
    [code] = re.findall(r"^class ResetTrainState.*?\n\n\n", PAGE.read_text(), re.S | re.M)
    names = {"TrainState": train_state.TrainState, "optax": optax}
    exec(code, names)
    params = network()
    data = stream(params)

    @jit
    def train(params, data):
        needs = "features" in METHODS[name].requires
        kind = names["ResetTrainState"] if needs else train_state.TrainState
        state = kind.create(apply_fn=None, params=params, tx=attach(name))

        def step(state, now):
            grads, features = now
            extra = {"features": features} if needs else {}
            return state.apply_gradients(grads=grads, **extra), None

        return jax.lax.scan(step, state, data)[0]

    state = train(params, data)
    assert_close((state.params, state.opt_state), plain(name))
    assert state.step == STEPS


def test_flax_nnx_optimizer():
    class Network(nnx.Module):
        def __init__(self):
            self.first = nnx.Linear(3, 8, rngs=nnx.Rngs(0))
            self.second = nnx.Linear(8, 2, rngs=nnx.Rngs(1))

        def __call__(self, x):
            return self.second(nnx.relu(self.first(x)))

    model = Network()
    tx = attach_reset_method(tx=optax.adam(1e-2), reset_method=ReGraMa(threshold=9.0, every=1))
    optimizer = nnx.Optimizer(model, tx, wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer):
        grads = nnx.grad(lambda model: jnp.sum(model(jnp.ones((4, 3))) ** 2))(model)
        optimizer.update(model, grads)

    for _ in range(2):
        step(model, optimizer)
    np.testing.assert_array_equal(optimizer.opt_state.log.numbers[...][:, 2], [8])
    np.testing.assert_array_equal(model.second.kernel[...], np.zeros((8, 2)))
    np.testing.assert_array_equal(model.first.bias[...], np.zeros(8))
    assert (model.second.bias[...] != 0).all()
    mu = optimizer.opt_state.inner[0].mu
    np.testing.assert_array_equal(mu["first"]["kernel"][...], np.zeros((3, 8)))
