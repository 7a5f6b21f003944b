"""Is it friction? A block pushed over the robots' ground meets what docs/robots.md says."""

import jax
import numpy as np
import pytest

from benchmarks import friction
from continual_learning.envs.robots import UNROLLED_SOLVER, Ant


@pytest.fixture(autouse=True)
def promotion():
    with jax.numpy_rank_promotion("allow"):  # as Brax's code relies on
        yield


def ratios(physics, solver, timestep=0.01):
    """Force over μmg when pushed with 1.25 μmg, [frictions, directions]."""
    return np.asarray(friction.table(physics, solver, timestep)["ratio"][0])


def test_mjx_has_coulombs_friction_in_every_direction():
    low = np.asarray(friction.FRICTIONS) <= 0.5
    found = ratios("mjx", Ant.usual_solver)[low]
    np.testing.assert_allclose(found, 1.0, atol=0.06)
    assert np.ptp(found, axis=1).max() < 0.01  # the cone is elliptic: no direction is special


def test_unrolled_has_coulombs_friction_in_every_direction():
    mu = np.asarray(friction.FRICTIONS)
    found = ratios("unrolled", UNROLLED_SOLVER)
    np.testing.assert_allclose(found[mu <= 0.5], 1.0, atol=0.06)
    assert np.ptp(found[mu <= 1], axis=1).max() < 0.01
    # In short steps the block hardly hops, and friction is Coulomb's up to 1.
    found = ratios("unrolled", UNROLLED_SOLVER, timestep=0.003)
    np.testing.assert_allclose(found[mu <= 1], 1.0, atol=0.05)
    assert np.ptp(found[mu <= 1], axis=1).max() < 0.01


def test_generalized_has_hardly_any_friction_at_low_mu():
    found = ratios("generalized", None)
    mu = np.asarray(friction.FRICTIONS)
    assert (np.abs(found[mu <= 0.1]) < 0.02).all()
    assert (found[(mu >= 0.3) & (mu <= 0.5)] > 0.6).all()
