import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from continual_learning.networks import DiagonalGaussian

MEAN, STD = np.array([[0.5, -1.0], [2.0, 0.0]]), np.array([[1.0, 2.0], [0.5, 0.1]])
POLICY = DiagonalGaussian(jnp.asarray(MEAN), jnp.asarray(STD))


def test_from_outputs():
    policy = DiagonalGaussian.from_outputs(jnp.array([1.0, 2.0, 0.0, -100.0]))
    np.testing.assert_array_equal(policy.mean, [1.0, 2.0])
    np.testing.assert_allclose(policy.std, [math.log(2) + 1e-3, 1e-3], rtol=1e-6)
    policy = DiagonalGaussian.from_outputs(jnp.array([1.0, 0.0]), min_std=0.5)
    np.testing.assert_allclose(policy.std, [math.log(2) + 0.5], rtol=1e-6)


def test_log_prob_and_entropy():
    action = np.array([[0.0, 0.0], [2.5, 0.1]])
    normal = scipy.stats.norm(MEAN, STD)
    found = POLICY.log_prob(jnp.asarray(action))
    np.testing.assert_allclose(found, normal.logpdf(action).sum(-1), rtol=1e-5)
    np.testing.assert_allclose(POLICY.entropy(), normal.entropy().sum(-1), rtol=1e-5)


def test_kl():
    np.testing.assert_allclose(POLICY.kl(POLICY), [0, 0], atol=1e-7)
    # N(1, 2) from N(0, 1): log(1/2) + (4 + 1)/2 − 1/2; the second entry is the same in both.
    one = DiagonalGaussian(jnp.array([1.0, 3.0]), jnp.array([2.0, 0.2]))
    other = DiagonalGaussian(jnp.array([0.0, 3.0]), jnp.array([1.0, 0.2]))
    np.testing.assert_allclose(one.kl(other), 2 - math.log(2), rtol=1e-6)


def test_samples():
    policy = DiagonalGaussian(*(jnp.broadcast_to(x[None], (20_000, 2, 2)) for x in POLICY))
    sample = policy.sample(jax.random.key(0))
    assert np.abs(sample.mean(0) - MEAN) / STD == pytest.approx(0, abs=0.03)
    np.testing.assert_allclose(sample.std(0), STD, rtol=0.03)
