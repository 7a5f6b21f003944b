"""Is it friction? A block pushed over the robots' ground meets what docs/robots.md says."""

import jax
import numpy as np
import pytest

from benchmarks import friction
from continual_learning.envs.robots import Ant


@pytest.fixture(autouse=True)
def promotion():
    with jax.numpy_rank_promotion("allow"):  # as Brax's code relies on
        yield


def ratios(physics, solver):
    """Force over μmg when pushed with 1.25 μmg, [frictions, directions]."""
    return np.asarray(friction.table(physics, solver, timestep=0.01)["ratio"][0])


def test_mjx_has_coulombs_friction_in_every_direction():
    low = np.asarray(friction.FRICTIONS) <= 0.5
    found = ratios("mjx", Ant.usual_solver)[low]
    np.testing.assert_allclose(found, 1.0, atol=0.06)
    assert np.ptp(found, axis=1).max() < 0.01  # the cone is elliptic: no direction is special


def test_generalized_has_hardly_any_friction_at_low_mu():
    found = ratios("generalized", None)
    mu = np.asarray(friction.FRICTIONS)
    assert (np.abs(found[mu <= 0.1]) < 0.02).all()
    assert (found[(mu >= 0.3) & (mu <= 0.5)] > 0.6).all()
