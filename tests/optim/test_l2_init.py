"""L2 Init against its authors' program.

The arrays in golden/l2_init.npz come from the class `L2InitAgent` of agents/agents.py in
github.com/skumar9876/L2_Init (commit 3f86d26 of January 2025), run in PyTorch in float64: a dense
network of theirs, four steps of SGD (learning rate 0.1) and of Adam (0.02) on random inputs and
labels, with the gradients of the loss without its penalty and the parameters after every step.
"""

import functools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.optim import L2Init, attach_reset_method, sequential_units
from continual_learning.optim.method import Initial, with_initial
from tests.optim import rollouts
from tests.optim.rollouts import assert_close, assert_equal, jit

LAYERS = ("input_layer", "fc2", "output_layer")
NAMES = [f"{layer}.{leaf}" for layer in LAYERS for leaf in ("weight", "bias")]


@pytest.mark.parametrize(("name", "tx"), [("SGD", optax.sgd(0.1)), ("Adam", optax.adam(0.02))])
def test_golden(name, tx, golden, close):
    g = golden("l2_init")
    params = rollouts.torch_tree(g, NAMES)
    grads = rollouts.torch_steps(g, NAMES, f"{name}_{{}}_grad_{{}}")
    graph = sequential_units(params, [f"{x}/weight" for x in LAYERS], layout="out_in")
    method = L2Init(float(g["l2_weight"]))
    tx = attach_reset_method(tx=tx, reset_method=method, units=graph)
    after = jit(functools.partial(rollouts.history, tx))(params, grads)
    expected = rollouts.torch_steps(g, NAMES, f"{name}_{{}}_after_{{}}")
    jax.tree.map(close, after, expected)
    # The penalty makes a difference that the tolerance does not hide.
    assert not np.allclose(after["fc2"]["weight"][-1], params["fc2"]["weight"], atol=1e-3)


def one_step(params, moved, strength, tx=None):
    """The step from `moved`, with gradients of 0, of training that began at `params`."""
    tx = attach_reset_method(tx=tx or optax.sgd(1.0), reset_method=L2Init(strength))
    updates, _ = tx.update(optax.tree.zeros_like(params), tx.init(params), moved)
    return updates


def test_a_step_by_hand():
    params = {"kernel": jnp.array([[1.0, -2.0]]), "scale": jnp.array(3.0)}
    moved = {"kernel": jnp.array([[2.0, -2.0]]), "scale": jnp.array(1.0)}
    updates = one_step(params, moved, 0.25)
    np.testing.assert_array_equal(updates["kernel"], [[-0.25, 0.0]])
    np.testing.assert_array_equal(updates["scale"], 0.5)


sgd_step = jit(one_step)


@hypothesis.given(st.floats(0.01, 1.0), st.integers(0, 99))
@hypothesis.settings(max_examples=8)
def test_without_a_loss_the_distance_shrinks_by_the_strength(strength, seed):
    params, moved = rollouts.network(seed), rollouts.network(seed + 1)
    after = optax.apply_updates(moved, sgd_step(params, moved, strength))
    expected = jax.tree.map(lambda p, q: p + (1 - strength) * (q - p), params, moved)
    assert_close(after, expected, rtol=1e-4, atol=1e-5)


def test_the_gradient_is_added_before_the_inner_optimizer():
    params, moved = rollouts.network(), rollouts.network(1)
    updates = jit(functools.partial(one_step, strength=0.3, tx=optax.sign_sgd(1.0)))(params, moved)
    assert_equal(updates, jax.tree.map(lambda p, q: jnp.sign(p - q), params, moved))


def test_nothing_changes_at_the_initial_parameters_or_without_strength():
    params = rollouts.network()
    assert not any(u.any() for u in jax.tree.leaves(sgd_step(params, params, 0.5)))
    assert not any(u.any() for u in jax.tree.leaves(sgd_step(params, rollouts.network(1), 0.0)))


def test_what_is_masked_is_not_regularized():
    params, moved = rollouts.network(), rollouts.network(1)
    mask = jax.tree.map(lambda p: p.ndim == 2, params)
    tx = optax.masked(attach_reset_method(tx=optax.sgd(1.0), reset_method=L2Init(0.5)), mask)
    zero, state = optax.tree.zeros_like(params), jit(tx.init)(params)
    updates, _ = jit(tx.update)(zero, state, moved)
    for layer, update in updates.items():
        assert not update["bias"].any()
        half = 0.5 * (params[layer]["kernel"] - moved[layer]["kernel"])
        np.testing.assert_allclose(update["kernel"], half, rtol=1e-5, atol=1e-6)


def test_a_new_optimizer_can_keep_the_first_parameters():
    params, moved = rollouts.network(), rollouts.network(1)
    tx = attach_reset_method(tx=optax.adam(1e-2), reset_method=L2Init())
    old, new = map(jit(tx.init), (params, moved))
    kept = with_initial(new, old)
    assert isinstance(kept.inner.method, Initial)
    assert_equal(kept.inner.method.value, params)
    assert_equal(kept.inner.inner, new.inner.inner)


def test_bad_options():
    with pytest.raises(ValueError, match=r"strength must be at least 0, got -0\.1"):
        L2Init(-0.1)
