"""`update(…, reset=)`: a training loop that knows its schedule, or wants one of its own."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.optim import rollouts
from tests.optim.rollouts import (
    METHODS,
    assert_close,
    assert_equal,
    every_method,
    jit,
    resetting_method,
    unit_method,
)

SCHEDULES = {  # what every=2 does
    "CPR": [False, False, True, False, True],
    "ReDo": [False, False, True, False, True],
    "ReGraMa": [False, False, True, False, True],
    "ShrinkAndPerturb": [False, True, False, True, False],
}


@functools.cache
def step(name, reset):
    """A compiled update; `reset` is a Python bool or None, or "traced" for one that is passed."""
    tx = rollouts.attach(name)

    def update(grads, state, params, features, given):
        wanted = given if reset == "traced" else reset
        return tx.update(grads, state, params, features=features, reset=wanted)

    return jit(update)


def run(name, resets, traced=False):
    """The updates of all steps, and the last state."""
    params = rollouts.network()
    data = rollouts.stream(params)
    state, updates = rollouts.attach(name).init(params), []
    for i, reset in enumerate(resets):
        grads, features = jax.tree.map(lambda a, i=i: a[i], data)
        call = step(name, "traced" if traced else reset)
        update, state = call(grads, state, params, features, jnp.array(bool(reset)))
        updates.append(update)
        params = optax.apply_updates(params, update)
    return updates, state


@pytest.mark.parametrize("name", SCHEDULES)
def test_saying_the_schedule_changes_nothing(name):
    assert_close(run(name, SCHEDULES[name]), run(name, [None] * 5))


@resetting_method
def test_without_resets_updates_are_the_inner_ones(name):
    updates, state = run(name, [False] * 3)
    expected, _ = run("NoReset", [None] * 3)
    assert_equal(updates, expected)
    assert (state.log.resets == 0).all()


@unit_method
def test_a_reset_on_demand(name):
    resets = [False, False, False, True]
    _, state = run(name, resets)
    assert (state.log.resets == 1).all()
    assert_close(run(name, resets), run(name, resets, traced=True))


@every_method
def test_a_promise_leaves_no_branch_in_the_program(name):
    tx, params = rollouts.attach(name), rollouts.network()
    grads, features = jax.tree.map(lambda a: a[0], rollouts.stream(params))

    def program(reset):
        return str(
            jax.make_jaxpr(lambda g, s: tx.update(g, s, params, features=features, reset=reset))(
                grads, tx.init(params)
            )
        )

    if name != "SNR":  # it estimates its thresholds in a branch of its own
        assert " cond[" not in program(False)
        assert " cond[" not in program(True)
    if name != "UPGD":  # it adds noise in every step
        assert "random_bits" not in program(False) and "threefry" not in program(False)
    assert (" cond[" in program(None)) == METHODS[name].resets


def test_lanes_with_resets_of_their_own():
    tx, params = rollouts.attach("CPR"), rollouts.network()
    grads, _ = jax.tree.map(lambda a: a[0], rollouts.stream(params))
    state = tx.init(params)
    resets = jnp.array([True, False])
    step = jax.vmap(lambda r: tx.update(grads, state, params, reset=r))
    _, after = jit(step)(resets)
    np.testing.assert_array_equal(after.log.resets, [[1, 1], [0, 0]])


@pytest.mark.parametrize("bad", [1, "yes", np.ones(2, bool), 0.5])
def test_a_bad_reset_argument(bad):
    tx, params = rollouts.attach("CPR"), rollouts.network()
    with pytest.raises((ValueError, TypeError), match="`reset` must be True, False, a bool array"):
        tx.update(params, tx.init(params), params, reset=bad)
