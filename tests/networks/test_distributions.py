import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from continual_learning.networks import Categorical, DiagonalGaussian, TanhGaussian

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


def test_tanh_gaussian_from_outputs():
    policy = TanhGaussian.from_outputs(jnp.array([0.5, -1.0, 2.0, 1.0, -30.0, 9.0]))
    np.testing.assert_array_equal(policy.mean, [0.5, -1, 2])
    np.testing.assert_array_equal(policy.log_std, [1, -20, 2])
    np.testing.assert_allclose(policy.mode(), np.tanh([0.5, -1, 2]), rtol=1e-6)


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (0.7, 0.3), (-1.5, 2.0)])
def test_tanh_gaussian_density_by_change_of_variables(mean, std):
    """Density of the action: that of its artanh over the slope of tanh there; it integrates to 1.

    Both are by scipy in float64, independently of the formula.
    """
    policy = TanhGaussian(jnp.full((4000, 1), mean), jnp.full((4000, 1), math.log(std)))
    action, log_prob = policy.sample(jax.random.key(0))
    assert (np.abs(action) <= 1).all()
    normal = scipy.stats.norm(mean, std)

    def density(a):
        return normal.pdf(np.arctanh(a)) / (1 - a**2)

    # Near ±1 the action in float32 does not say well what it came from.
    clear = np.abs(action[:, 0]) < 0.99
    assert clear.sum() > 1000
    expected = np.log(density(np.asarray(action[clear, 0], np.float64)))
    np.testing.assert_allclose(log_prob[clear], expected, atol=2e-3)
    # In u = artanh(a), where ends are not singular.
    u = np.linspace(mean - 9 * std, mean + 9 * std, 20_001)
    log_density = np.log(normal.pdf(u)) - 2 * np.log(1 / np.cosh(u))
    entropy = -np.trapezoid(normal.pdf(u) * log_density, u)
    assert -np.mean(log_prob) == pytest.approx(entropy, abs=0.08)


def test_tanh_gaussian_far_out_and_several_entries():
    policy = TanhGaussian(jnp.array([[50.0, 0.0]]), jnp.array([[0.0, -20.0]]))
    action, log_prob = policy.sample(jax.random.key(3))
    noise = np.asarray(jax.random.normal(jax.random.key(3), (1, 2)), np.float64)[0]
    u = 50 + noise[0]
    # For large u, 1 − tanh² u is 4·exp(−2u), which float32 does not hold.
    by_hand = scipy.stats.norm.logpdf(noise).sum() + 20 - (math.log(4) - 2 * u)
    assert action[0, 0] == 1
    assert log_prob[0] == pytest.approx(by_hand, rel=1e-5)
    grad = jax.grad(lambda mean: policy._replace(mean=mean).sample(jax.random.key(3))[1].sum())
    assert np.isfinite(grad(policy.mean)).all()


def test_categorical():
    logits = np.array([[0.0, 1.0, -2.0], [3.0, 3.0, 3.0]])
    policy = Categorical.from_outputs(jnp.asarray(logits))
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    np.testing.assert_allclose(policy.probs, probs, rtol=1e-6)
    np.testing.assert_allclose(policy.entropy(), scipy.stats.entropy(probs, axis=-1), rtol=1e-6)
    np.testing.assert_allclose(
        policy.mean(jnp.asarray(logits)), (probs * logits).sum(-1), rtol=1e-6
    )
    assert policy.mode().tolist() == [1, 0]
    many = Categorical(jnp.broadcast_to(policy.log_probs[:1], (20_000, 3)))
    sample = many.sample(jax.random.key(0))
    assert sample.dtype == jnp.int32
    np.testing.assert_allclose(np.bincount(sample) / 20_000, probs[0], atol=0.01)


def test_categorical_of_an_impossible_action():
    policy = Categorical.from_outputs(jnp.array([0.0, -1e4]))
    assert policy.entropy() == 0
    assert np.isfinite(jax.grad(lambda x: Categorical.from_outputs(x).entropy())(policy[0])).all()
