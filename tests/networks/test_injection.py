"""Plasticity injection, checked by hand: there is no public code of its authors that we know."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.networks import MLP
from continual_learning.networks.injection import PlasticityInjection, inject, trainable
from continual_learning.optim import ReDo, attach_reset_method, trace_units
from tests.optim.rollouts import jit


class Agent(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(5, name="encoder")(x))
        return PlasticityInjection(MLP((4,), 2), name="head")(x)


AGENT = Agent()
X = jax.random.normal(jax.random.key(1), (6, 3))


@pytest.fixture(scope="module")
def trees():
    """Parameters before an injection, after it, and after a second one."""
    start = AGENT.init(jax.random.key(0), X)
    start = jax.tree.map(lambda w: w + 0.1, start)
    once = inject(AGENT, start, jax.random.key(2), X)
    moved = jax.tree.map(lambda w, learns: w + 0.2 * learns, once, trainable(once))
    return start, once, moved, inject(AGENT, moved, jax.random.key(3), X)


def apply(params):
    return AGENT.apply(params, X)


def test_outputs_do_not_change_at_the_moment_of_injection(trees):
    start, once, moved, twice = map(jit(apply), trees)
    np.testing.assert_array_equal(once, start)
    np.testing.assert_array_equal(twice, moved)
    assert np.abs(np.asarray(moved) - np.asarray(start)).min() > 0


def test_outputs_by_hand(trees):
    *_, twice = trees
    p = jax.tree.map(np.asarray, twice["params"])
    h = np.maximum(np.asarray(X) @ p["encoder"]["kernel"] + p["encoder"]["bias"], 0)

    def head(own):
        z = np.maximum(h @ own["hidden_0"]["kernel"] + own["hidden_0"]["bias"], 0)
        return z @ own["output"]["kernel"] + own["output"]["bias"]

    heads = p["head"]
    pairs = {f"{name}_{i}" for name in ("injected", "subtracted") for i in (0, 1)}
    assert set(heads) == {"injectable", *pairs}
    expected = head(heads["injectable"])
    for i in (0, 1):
        expected += head(heads[f"injected_{i}"]) - head(heads[f"subtracted_{i}"])
    np.testing.assert_allclose(jit(apply)(twice), expected, rtol=1e-5, atol=1e-5)


def test_gradients_flow_into_the_new_head_alone_and_through_all_to_the_encoder(trees):
    start, once, _, twice = trees
    grad = jit(jax.grad(lambda p: jnp.sum(apply(p) ** 2)))
    plain, first, second = grad(start), grad(once), grad(twice)

    def moves(tree):
        return {name: any(np.any(g) for g in jax.tree.leaves(own)) for name, own in tree.items()}

    assert all(moves(plain["params"]["head"]).values())
    assert moves(first["params"]["head"]) == {
        "injectable": False, "injected_0": True, "subtracted_0": False
    }  # fmt: skip
    assert [name for name, own in moves(second["params"]["head"]).items() if own] == ["injected_1"]
    # Right after an injection, the changes through the new pair cancel.
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5),
        first["params"]["encoder"],
        plain["params"]["encoder"],
    )


def test_the_mask_keeps_decay_and_momentum_away_from_frozen_heads(trees):
    start, once, _, twice = trees
    assert all(jax.tree.leaves(trainable(start)))
    mask = trainable(twice)["params"]
    assert all(jax.tree.leaves(mask["encoder"]))
    assert [n for n, own in mask["head"].items() if all(jax.tree.leaves(own))] == ["injected_1"]
    count = {id(t): sum(jax.tree.leaves(trainable(t))) for t in (start, once, twice)}
    assert len({*count.values()}) == 1  # as many parameters learn as before
    tx = optax.multi_transform(
        {True: optax.adamw(0.1, weight_decay=0.5), False: optax.set_to_zero()}, trainable
    )

    @jit
    def trained(params):
        state = tx.init(params)
        for _ in range(2):
            updates, state = tx.update(jax.tree.map(jnp.ones_like, params), state, params)
            params = optax.apply_updates(params, updates)
        return params

    done = trained(once)
    moved = jax.tree.map(lambda a, b: bool((a != b).any()), done, once)
    assert moved == trainable(once)


def test_resets_leave_frozen_heads_alone(trees):
    _, once, _, _ = trees
    graph = trace_units(AGENT.apply, once, X)
    reset = attach_reset_method(tx=optax.sgd(0.1), reset_method=ReDo(threshold=10.0), units=graph)
    tx = optax.multi_transform({True: reset, False: optax.set_to_zero()}, trainable)

    @jit
    def step(params):
        _, features, _ = graph.with_features(AGENT.apply)(params, X)
        zeros = jax.tree.map(jnp.zeros_like, params)
        updates, _ = tx.update(zeros, tx.init(params), params, features=features, reset=True)
        return optax.apply_updates(params, updates)

    done = step(once)["params"]["head"]
    same = {
        name: all(jax.tree.leaves(jax.tree.map(lambda a, b: bool((a == b).all()), done[name], own)))
        for name, own in once["params"]["head"].items()
    }
    assert same == {"injectable": True, "injected_0": False, "subtracted_0": True}


def test_it_is_the_head_before_an_injection():
    head = MLP((4,), 2)
    wrapped = PlasticityInjection(head)
    params = wrapped.init(jax.random.key(0), X)
    assert set(params["params"]) == {"injectable"}
    own = {"params": params["params"]["injectable"]}
    np.testing.assert_array_equal(wrapped.apply(params, X), head.apply(own, X))
    again = inject(wrapped, params, jax.random.key(1), X)
    np.testing.assert_array_equal(wrapped.apply(again, X), wrapped.apply(params, X))
    fresh = again["params"]["injected_0"]
    assert (fresh["output"]["kernel"] != own["params"]["output"]["kernel"]).all()


def test_what_cannot_be_injected():
    plain = MLP((4,), 2)
    with pytest.raises(ValueError, match="contains no PlasticityInjection"):
        inject(plain, plain.init(jax.random.key(0), X), jax.random.key(1), X)
    norm = PlasticityInjection(nn.BatchNorm(use_running_average=True))
    norm = PlasticityInjection(nn.BatchNorm(use_running_average=True))
    with pytest.raises(ValueError, match="parameters alone, but it has batch_stats"):
        norm.init(jax.random.key(0), X)
