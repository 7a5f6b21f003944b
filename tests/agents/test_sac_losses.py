"""Losses of SAC by hand."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from continual_learning.agents.sac import losses as sac_losses
from continual_learning.networks import Categorical


def test_soft_value():
    q = jnp.array([[1.0, 5.0], [2.0, -3.0]])  # two critics, two samples
    value = sac_losses.soft_value(q, jnp.array([-1.0, 2.0]), alpha=0.5)
    np.testing.assert_allclose(value, [1 + 0.5, -3 - 1])


def test_the_lesser_critic_takes_the_gradient():
    def value(q):
        return sac_losses.soft_value(q, jnp.zeros(3), alpha=0.5).sum()

    q = jnp.array([[1.0, 5.0, 4.0], [2.0, -3.0, 4.0]])
    np.testing.assert_array_equal(jax.grad(value)(q), [[1, 0, 1], [0, 1, 0]])
    # No question which value equals the least: computed again it may be rounded otherwise.
    assert " eq " not in str(jax.make_jaxpr(jax.grad(value))(q))


def test_expected_soft_value():
    probs = np.array([[0.25, 0.75], [0.5, 0.5]])
    q = np.array([[[1.0, 2.0], [0.0, 4.0]], [[3.0, 1.0], [-2.0, 6.0]]])
    policy = Categorical(jnp.log(jnp.asarray(probs)))
    value = sac_losses.expected_soft_value(jnp.asarray(q), policy, alpha=0.5)
    entropy = [-0.25 * math.log(0.25) - 0.75 * math.log(0.75), math.log(2)]
    # The lesser of both critics, action by action: [1, 1] and [−2, 4].
    np.testing.assert_allclose(value, [1 + 0.5 * entropy[0], 1 + 0.5 * entropy[1]], rtol=1e-6)


def test_only_termination_ends_the_future():
    reward, value = jnp.array([1.0, 2.0]), jnp.array([10.0, jnp.nan])
    found = sac_losses.critic_targets(reward, jnp.array([False, True]), value, discount=0.9)
    np.testing.assert_allclose(found, [10, 2])

    def total(value):
        terminated = jnp.array([False, False])
        return sac_losses.critic_targets(reward, terminated, value, discount=0.9).sum()

    np.testing.assert_array_equal(jax.grad(total)(jnp.ones(2)), [0, 0])


def test_critic_loss():
    q, targets = jnp.array([1.0, 4.0]), jnp.array([2.0, 1.0])
    assert sac_losses.critic_loss(q, targets) == 0.5 * (1 + 9) / 2
    grad = jax.grad(sac_losses.critic_loss)(q, targets)
    np.testing.assert_allclose(grad, [-0.5, 1.5])  # (q − target) / batch


def test_alpha_rises_where_the_entropy_is_too_low():
    loss = jax.value_and_grad(sac_losses.alpha_loss)
    value, grad = loss(jnp.log(0.2), jnp.array([0.5, 1.5]), target_entropy=3.0)
    np.testing.assert_allclose([value, grad], 0.2 * (1 - 3), rtol=1e-6)
    _, grad = loss(jnp.log(0.2), jnp.array([4.0]), target_entropy=3.0)
    assert grad == pytest.approx(0.2)
