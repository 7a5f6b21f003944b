"""States of a user's own optimizer restart once its fields are registered."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.optim import moments, register_moments
from tests.optim.restarts import KERNELS, assert_equal, is_masked, reset_entries, states


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(moments, "_FIELDS", dict(moments._FIELDS))


class OwnState(NamedTuple):
    steps: Any  # per entry
    average: Any
    anchor: Any  # a copy of the parameters


def own_optimizer():
    def init(params):
        zeros = optax.tree.zeros_like(params)
        return OwnState(optax.tree.zeros_like(params, dtype=jnp.int32), zeros, params)

    def update(updates, state, params=None):
        steps = jax.tree.map(lambda n: n + 1, state.steps)
        average = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, state.average, updates)
        updates = jax.tree.map(lambda a, n: -0.1 * a / (1 - 0.9**n), average, steps)
        return updates, OwnState(steps, average, state.anchor)

    return optax.GradientTransformation(init, update)


def test_a_state_of_ones_own_is_left_alone_until_it_is_registered(registry):
    state, alone = states(own_optimizer())
    assert_equal(state, alone)


def test_registered_fields_restart_with_their_unit(registry):
    register_moments(OwnState, "steps", "average")
    tx = optax.chain(optax.clip(0.5), optax.masked(own_optimizer(), KERNELS))
    state, alone = states(tx)
    masks = reset_entries()
    state, alone = state[1].inner_state, alone[1].inner_state
    assert_equal(state.anchor, alone.anchor)
    for layer, mask in masks.items():
        steps, average = state.steps[layer]["kernel"], state.average[layer]["kernel"]
        assert steps.dtype == jnp.int32
        np.testing.assert_array_equal(steps, np.where(mask["kernel"], 0, 1))
        expected = np.where(mask["kernel"], 0, alone.average[layer]["kernel"])
        np.testing.assert_array_equal(average, expected)
        assert is_masked(state.steps[layer]["bias"])


def test_registering_again_replaces_the_fields(registry):
    register_moments(OwnState, "steps", "average", "anchor")
    register_moments(OwnState, "steps")
    state, alone = states(own_optimizer())
    assert_equal(state.average, alone.average)
    assert_equal(state.anchor, alone.anchor)
    assert_equal(jax.tree.map(lambda n: n == 0, state.steps), reset_entries())


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((dict, "mu"), TypeError, "is not a NamedTuple class"),
        ((OwnState,), ValueError, r"fields must be some of \['steps', 'average', 'anchor'\]"),
        ((OwnState, "steps", "mu"), ValueError, r"got \['steps', 'mu'\]"),
    ],
)
def test_what_cannot_be_registered_is_refused(arguments, error, message, registry):
    with pytest.raises(error, match=message):
        register_moments(*arguments)
    assert OwnState not in moments._FIELDS
