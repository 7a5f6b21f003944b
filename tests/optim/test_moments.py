"""Moments of reset entries restart, those of all others stay, through any nesting of optimizers."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from optax import contrib

from continual_learning.optim import CBP, CPR, ReDo, ReGraMa
from tests.optim.restarts import (
    DEAD,
    INIT,
    KERNELS,
    KINDS,
    LAYERS,
    assert_equal,
    cleared,
    dtypes,
    gradients,
    is_masked,
    reset_entries,
    states,
)


def accumulated(tx, every):
    return optax.MultiSteps(tx, every).gradient_transformation()


OPTIMIZERS = {
    "adam": optax.adam(0.01),
    "adam with half-precision momentum": optax.adam(0.01, mu_dtype=jnp.bfloat16),
    "amsgrad": optax.amsgrad(0.01),
    "adabelief": optax.adabelief(0.01),
    "adadelta": optax.adadelta(0.01),
    "lion": optax.lion(0.01),
    "rmsprop": optax.rmsprop(0.01),
    "rmsprop with momentum": optax.rmsprop(0.01, momentum=0.9, bias_correction=True),
    "centered rmsprop": optax.rmsprop(0.01, centered=True, nesterov=True, momentum=0.9),
    "centered rmsprop, corrected": optax.rmsprop(0.01, centered=True, bias_correction=True),
    "momentum": optax.sgd(0.01, momentum=0.9),
    "ema": optax.chain(optax.ema(0.9), optax.scale(-0.01)),
    "muon": contrib.muon(0.01),
}
NESTED = {
    "chain": optax.chain(optax.clip_by_global_norm(0.5), optax.adam(0.01)),
    "named chain": optax.named_chain(("clip", optax.clip(0.5)), ("adam", optax.adam(0.01))),
    "masked": optax.masked(optax.trace(0.9), KERNELS),
    "multi_transform": optax.multi_transform(
        {"kernel": optax.adam(0.01), "bias": optax.sgd(0.1, momentum=0.9)}, KINDS
    ),
    "multi_transform by prefix": optax.multi_transform(
        {"first": optax.lion(0.01), "last": optax.adam(0.1)}, LAYERS
    ),
    "inject_hyperparams": optax.inject_hyperparams(optax.adam)(learning_rate=0.01),
    "apply_if_finite": optax.apply_if_finite(optax.adam(0.01), 3),
    "inject_hyperparams in a chain": optax.chain(
        optax.clip(0.5), optax.inject_hyperparams(optax.rmsprop)(learning_rate=0.01)
    ),
    "chain in multi_transform": optax.multi_transform(
        {"kernel": optax.chain(optax.ema(0.9), optax.trace(0.5)), "bias": optax.adam(0.01)}, KINDS
    ),
    "muon, masked": optax.masked(contrib.muon(0.01), KERNELS),
    "two of a kind": optax.chain(optax.trace(0.9), optax.trace(0.5), optax.scale(-0.1)),
}


@pytest.mark.parametrize("tx", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_moments_of_reset_entries_are_zero_and_all_others_as_they_were(tx):
    state, alone = states(tx)
    assert_equal(state, cleared(tx, alone))
    assert dtypes(state) == dtypes(alone)


@pytest.mark.parametrize("tx", NESTED.values(), ids=NESTED)
def test_moments_are_found_through_nesting(tx):
    state, alone = states(tx)
    assert_equal(state, cleared(tx, alone))


def test_the_comparison_sees_what_was_kept():
    tx = OPTIMIZERS["adam"]
    _, alone = states(tx)
    expected = cleared(tx, alone)[0]
    for moment in (expected.mu, expected.nu):
        zero = jax.tree.map(lambda m: m == 0, moment)
        assert_equal(zero, reset_entries())


def test_muon_keeps_kernels_and_biases_apart():
    state, _ = states(OPTIMIZERS["muon"])
    masks = reset_entries()
    kernels = state.inner_states["muon"].inner_state[0].mu
    biases = state.inner_states["adam"].inner_state[0].nu
    for layer in masks:
        assert is_masked(kernels[layer]["bias"])
        assert is_masked(biases[layer]["kernel"])
        np.testing.assert_array_equal(kernels[layer]["kernel"] == 0, masks[layer]["kernel"])
        np.testing.assert_array_equal(biases[layer]["bias"] == 0, masks[layer]["bias"])


@pytest.mark.parametrize(
    "tx",
    [
        accumulated(optax.adam(0.01), 2),
        optax.chain(optax.scale(2.0), accumulated(optax.lion(0.1), 2)),
    ],
    ids=["accumulated", "accumulated, in a chain"],
)
def test_gradient_accumulators_stay_while_moments_restart(tx):
    # Two calls make a step; the gradient of the third waits in the accumulator.
    state, alone = states(tx, calls=3)
    waiting = optax.tree.get(state, "acc_grads")
    assert_equal(waiting, optax.tree.get(alone, "acc_grads"))
    assert all((g != 0).all() for g in jax.tree.leaves(waiting))
    mu = optax.tree.get(state, "mu")
    kept = optax.tree.get(alone, "mu")
    assert all((m != 0).all() for m in jax.tree.leaves(kept))
    assert_equal(mu, jax.tree.map(lambda m, e: np.where(e, 0, m), kept, reset_entries()))


COPIES = {
    "schedule_free": (
        contrib.schedule_free(optax.sgd(0.01, momentum=0.9), learning_rate=0.01),
        ("trace",),
        ("z",),
    ),
    "mechanize": (contrib.mechanize(optax.adam(0.01)), ("mu", "nu"), ("x0",)),
    "apply_every": (
        optax.chain(optax.trace(0.9), optax.apply_every(3)),
        ("trace",),
        ("grad_acc",),
    ),
}


@pytest.mark.parametrize(("tx", "restart", "stay"), COPIES.values(), ids=COPIES)
def test_copies_of_parameters_and_sums_of_gradients_stay(tx, restart, stay):
    state, alone = states(tx)
    for field in stay:
        kept = optax.tree.get(state, field)
        assert_equal(kept, optax.tree.get(alone, field))
        assert all((leaf != 0).all() for leaf in jax.tree.leaves(kept))
    for field in restart:
        zero = jax.tree.map(lambda m: m == 0, optax.tree.get(state, field))
        assert_equal(zero, reset_entries())


@pytest.mark.parametrize(
    "tx",
    [optax.adafactor(0.01, min_dim_size_to_factor=2), optax.novograd(0.01)],
    ids=["factored", "novograd"],
)
def test_statistics_that_are_not_kept_per_entry_stay(tx):
    state, alone = states(tx)
    assert_equal(state, alone)


def test_a_restart_clears_what_is_not_finite():
    tx, entries = optax.sgd(0.01, momentum=0.9), reset_entries()

    def poison(state):
        bad = jax.tree.map(lambda e: jnp.where(e, jnp.nan, 0.0), entries)
        return (state[0]._replace(trace=bad), *state[1:])

    state, alone = states(tx, poison=poison)
    assert_equal(state, cleared(tx, alone))
    assert all(jnp.isfinite(m).all() for m in jax.tree.leaves(state))


def test_continual_backprop_restarts_replaced_units():
    # Two of six and one of five, those that contribute least.
    method = CBP(replacement_rate=0.35, maturity=0, init=INIT)
    tx = optax.adam(0.01)
    state, alone = states(tx, method)
    assert_equal(state, cleared(tx, alone))


@pytest.mark.parametrize(
    "method",
    [
        CBP(replacement_rate=0.35, maturity=0, init=INIT, reset_moments=False),
        ReDo(threshold=0.1, every=1, init=INIT, reset_moments=False),
    ],
    ids=["cbp", "redo"],
)
def test_moments_may_be_left_alone(method):
    state, alone = states(optax.adam(0.01), method)
    assert_equal(state, alone)


@pytest.mark.parametrize("zero_outgoing", [True, False])
def test_regrama_restarts_what_it_rewrites(zero_outgoing):
    def idle(seed):
        grads = gradients(seed)
        for name, dead in DEAD.items():
            grads[name.split("/")[0]]["kernel"][:, dead] = 0
        return grads

    def full(state):
        return (state[0]._replace(trace=jax.tree.map(jnp.ones_like, state[0].trace)), *state[1:])

    tx = optax.sgd(0.01, momentum=0.9)
    method = ReGraMa(threshold=0.1, every=1, zero_outgoing=zero_outgoing, init=INIT)
    state, alone = states(tx, method, grads=idle, poison=full)
    entries = reset_entries(outgoing=zero_outgoing)
    assert_equal(state, cleared(tx, alone, entries))
    method = dataclasses.replace(method, reset_moments=False)
    state, alone = states(tx, method, grads=idle, poison=full)
    assert_equal(state, alone)


@pytest.mark.parametrize("reset_bias", [False, True])
def test_cpr_keeps_a_share_of_each_moment(reset_bias):
    rho, kappa = 0.4, 4.0
    method = CPR(
        max_reset=rho,
        sharpness=kappa,
        decay=0.0,
        every=1,
        reset_bias=reset_bias,
        reset_moments=True,
        init=INIT,
    )
    state, alone = states(optax.chain(optax.clip(0.5), optax.adam(0.01)), method)
    grads = gradients(0)
    kept = {}
    for layer in ("layer_0", "layer_1"):
        score = np.abs(grads[layer]["kernel"]).mean(0)
        utility = score / score.mean()
        kept[layer] = 1 - rho * np.minimum(2 / (1 + np.exp(kappa * (utility - 1))), 1)
    for field in ("mu", "nu"):
        new, old = optax.tree.get(state, field), optax.tree.get(alone, field)
        share = {
            "layer_0": kept["layer_0"][None, :],
            "layer_1": kept["layer_1"][None, :] * kept["layer_0"][:, None],
            "layer_2": kept["layer_1"][:, None],
        }
        for layer in share:
            expected = share[layer] * old[layer]["kernel"]
            np.testing.assert_allclose(new[layer]["kernel"], expected, rtol=1e-5)
            expected = (kept.get(layer, 1) if reset_bias else 1) * old[layer]["bias"]
            np.testing.assert_allclose(new[layer]["bias"], expected, rtol=1e-5)
    assert_equal(optax.tree.get(state, "count"), optax.tree.get(alone, "count"))
