import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from continual_learning.agents.ppo.losses import explained_variance, policy_loss, value_loss
from continual_learning.networks import DiagonalGaussian

# Standard normals; old densities such that the ratios are 2, 1, 0.5.
RATIOS = jnp.array([2.0, 1.0, 0.5])
POLICY = DiagonalGaussian(jnp.zeros((3, 2)), jnp.ones((3, 2)))
ACTION = jnp.array([[0.0, 0.0], [1.0, 0.0], [0.0, -1.0]])
OLD = POLICY.log_prob(ACTION) - jnp.log(RATIOS)
ENTROPY = 1 + math.log(2 * math.pi)


def loss(advantage, **options):
    options = {"clip_ratio": 0.2, "entropy_coefficient": 0.0, "normalize": False} | options
    return policy_loss(POLICY, ACTION, OLD, jnp.array(advantage), **options)


def test_the_surrogate_takes_the_worse_of_both():
    # Gains count up to 1.2 and from 0.5; losses up to 2 and from 0.8.
    assert loss([1.0, 1.0, 1.0])[0] == pytest.approx(-(1.2 + 1 + 0.5) / 3)
    assert loss([-1.0, -1.0, -1.0])[0] == pytest.approx((2 + 1 + 0.8) / 3)


def test_entropy_bonus_and_metrics():
    total, metrics = loss([1.0, 1.0, 1.0], entropy_coefficient=0.5)
    assert total == pytest.approx(-0.9 - 0.5 * ENTROPY)
    assert metrics["entropy"] == pytest.approx(ENTROPY)
    assert metrics["clip_fraction"] == pytest.approx(2 / 3)
    # (2 − 1 − log 2) + 0 + (0.5 − 1 + log 2), over 3
    assert metrics["kl"] == pytest.approx(0.5 / 3)


def test_advantages_are_normalized_over_the_batch():
    # mean 3, standard deviation √6: −√1.5, 0, √1.5.
    total, _ = loss([0.0, 3.0, 6.0], normalize=True)
    assert total == pytest.approx((2 - 0.5) * math.sqrt(1.5) / 3)
    assert loss([0.0, 3.0, 6.0])[0] == pytest.approx(-(0 + 3 + 3) / 3)


def test_no_gradient_depends_on_which_value_equals_another():
    """Computed again by a compiler, a value may be rounded otherwise."""

    def of(mean):
        policy = DiagonalGaussian(mean, POLICY.std)
        return policy_loss(policy, ACTION, OLD, RATIOS, clip_ratio=0.2, entropy_coefficient=0.0)[0]

    assert " eq " not in str(jax.make_jaxpr(jax.grad(of))(POLICY.mean))


@pytest.mark.parametrize(
    ("mean", "sampled", "ratio", "share_of_gain", "share_of_loss"),
    [
        # Beyond the limit: log N(5; 6, 1) − log N(6.5; 6, 1) = −1/2 + 1/8.
        (6.0, 6.5, np.exp(-0.375), np.exp(-0.375), 0),
        # Within it: log N(5; 3, 1) − log N(6; 3, 1) = −2 + 9/2.
        (3.0, 6.0, np.exp(2.5), 0, np.exp(2.5)),
        # Far beyond it nothing is learned at all: −18 + 0.
        (11.0, 11.0, np.exp(-18), np.exp(-18), 0),
    ],
)
def test_the_density_of_an_action_that_was_not_applied(
    mean, sampled, ratio, share_of_gain, share_of_loss
):
    """An action is sampled and clipped to ±5; no update has been made, so the ratio should be 1.

    With the density of what was sampled it is not, and the gradient, whose size would be that of
    ∂ log N(5) / ∂ mean, is scaled by the ratio or gone.
    """

    def gradient(old, advantage):
        def of(mean):
            policy = DiagonalGaussian(mean[None, None], jnp.ones((1, 1)))
            arrays = jnp.full((1, 1), 5.0), old, jnp.full(1, advantage)
            options = {"clip_ratio": 0.2, "entropy_coefficient": 0.0, "normalize": False}
            return policy_loss(policy, *arrays, **options)

        return jax.grad(of, has_aux=True)(jnp.asarray(mean))

    then = DiagonalGaussian(jnp.full((1, 1), mean), jnp.ones((1, 1)))
    right, wrong = (then.log_prob(jnp.full((1, 1), a)) for a in (5.0, sampled))
    for advantage, share in ((1.0, share_of_gain), (-1.0, share_of_loss)):
        usual, metrics = gradient(right, advantage)
        assert float(usual) == pytest.approx(-advantage * (5 - mean))
        assert metrics["kl"] == 0 and metrics["clip_fraction"] == 0
        found, metrics = gradient(wrong, advantage)
        assert float(found) == pytest.approx(share * float(usual), rel=1e-5)
        assert metrics["clip_fraction"] == 1
        assert float(metrics["kl"]) == pytest.approx(ratio - 1 - np.log(ratio), rel=1e-4)


@pytest.mark.parametrize(("advantage", "moves"), [(1.0, False), (-1.0, True)])
def test_no_gradient_for_gains_beyond_the_clip(advantage, moves):
    """The ratio is 2: to raise it further gains nothing, to lower it still does."""

    def of(mean):
        policy = DiagonalGaussian(mean, POLICY.std[:1])
        numbers = {"clip_ratio": 0.2, "entropy_coefficient": 0.0, "normalize": False}
        return policy_loss(policy, ACTION[:1] + 1, old, jnp.array([advantage]), **numbers)[0]

    old = POLICY.log_prob(ACTION + 1)[:1] - math.log(2)
    gradient = jax.grad(of)(jnp.zeros((1, 2)))
    # d ratio / d mean = ratio · (action − mean) = 2
    np.testing.assert_allclose(gradient, [[2.0, 2.0]] if moves else [[0.0, 0.0]], rtol=1e-6)


def test_value_loss():
    values, targets = jnp.array([1.0, 2.0]), jnp.array([3.0, 2.0])
    assert value_loss(values, targets) == 0.5 * 0.5 * (4 + 0) / 2
    assert value_loss(values, targets, value_coefficient=1.0) == 0.5 * (4 + 0) / 2


def test_explained_variance():
    targets = jnp.array([1.0, 2.0, 3.0])
    assert explained_variance(targets + 5, targets) == 1
    assert explained_variance(jnp.zeros(3), targets) == 0
    assert explained_variance(-targets, targets) == pytest.approx(1 - 4)
    assert np.isnan(explained_variance(targets, jnp.ones(3)))


def test_a_ratio_that_would_overflow_poisons_nothing():
    def loss(mean):
        policy = DiagonalGaussian(mean, jnp.full((2, 1), 1e-3))
        old = jnp.array([-1e6, 0.0])  # the density is e^(1e6) times what it was, and the reverse
        return policy_loss(
            policy,
            jnp.zeros((2, 1)),
            old,
            jnp.array([-1.0, 1.0]),
            clip_ratio=0.2,
            entropy_coefficient=0.0,
            normalize=False,
        )[0]

    value, gradient = jax.value_and_grad(loss)(jnp.full((2, 1), 0.5))
    assert np.isfinite(value) and np.isfinite(gradient).all()
