"""Advantages: by hand where an episode goes on, terminates and is truncated, and as in Brax."""

from math import nan

import jax.numpy as jnp
import numpy as np
import pytest

from continual_learning.agents.ppo.returns import gae, shifted


def column(*values):
    return jnp.array(values, jnp.float32)[:, None]


def estimates(rewards, values, next_values, terminated, truncated, **options):
    options = {"discount": 0.5, "gae_lambda": 0.5} | options
    flags = (column(*terminated) > 0, column(*truncated) > 0)
    targets, advantages = gae(
        column(*rewards), column(*values), column(*next_values), *flags, **options
    )
    return targets[:, 0].tolist(), advantages[:, 0].tolist()


@pytest.mark.parametrize("truncation", ["mask", "bootstrap"])
def test_where_nothing_ends(truncation):
    # errors: 4 + 0.5·4 − 2 = 4, 8 + 0.5·8 − 4 = 8; corrections: 8, then 4 + 0.25·8 = 6.
    targets, advantages = estimates([4, 8], [2, 4], [4, 8], [0, 0], [0, 0], truncation=truncation)
    assert targets == [8, 12]
    assert advantages == [4 + 0.5 * 12 - 2, 8 + 0.5 * 8 - 4]


@pytest.mark.parametrize("truncation", ["mask", "bootstrap"])
def test_nothing_comes_after_termination(truncation):
    targets, advantages = estimates([4, 8], [2, 4], [nan, 8], [1, 0], [0, 0], truncation=truncation)
    assert targets == [4, 12]  # of the first step: its reward
    assert advantages == [2, 8]


def test_a_truncated_step_is_masked():
    targets, advantages = estimates([4, 8], [2, 4], [nan, 8], [0, 0], [1, 0], truncation="mask")
    assert targets == [2, 12]  # of the first step: its value
    assert advantages == [0, 8]


def test_a_truncated_step_bootstraps_from_the_state_reached():
    targets, advantages = estimates([4, 8], [2, 4], [6, 8], [0, 0], [1, 0], truncation="bootstrap")
    assert targets == [4 + 0.5 * 6, 12]
    assert advantages == [4 + 0.5 * 6 - 2, 8]


def test_lambda_one_gives_discounted_returns():
    targets, _ = estimates([1, 1, 1], [5, 7, 9], [7, 9, 8], [0, 0, 0], [0, 0, 0], gae_lambda=1.0)
    assert targets == [1 + 0.5 * 3.5, 1 + 0.5 * 5, 1 + 0.5 * 8]


def test_mask_is_as_in_brax():
    losses = pytest.importorskip("brax.training.agents.ppo.losses")
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(2, 20, 16)).astype(np.float32)
    last = rng.normal(size=16).astype(np.float32)
    kind = rng.choice(3, size=(20, 16), p=[0.6, 0.2, 0.2])
    terminated, truncated = kind == 1, kind == 2
    targets, advantages = gae(
        jnp.asarray(rewards),
        jnp.asarray(values),
        shifted(jnp.asarray(values), jnp.asarray(last)),
        jnp.asarray(terminated),
        jnp.asarray(truncated),
        discount=0.97,
        gae_lambda=0.95,
    )
    theirs = losses.compute_gae(
        truncated.astype(np.float32),
        terminated.astype(np.float32),
        rewards,
        values,
        last,
        lambda_=0.95,
        discount=0.97,
    )
    np.testing.assert_allclose(targets, theirs[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(advantages, theirs[1], rtol=1e-6, atol=1e-6)
