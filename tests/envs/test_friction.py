"""Is it friction? A block pushed over the robots' ground meets what docs/robots.md says."""

import jax
import mujoco
import numpy as np
import pytest

from benchmarks import friction
from continual_learning.envs.robots import UNROLLED_SOLVER, Ant
from continual_learning.envs.robots.robot import solver_of


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


@pytest.mark.parametrize("timestep", [0.01, 0.003])
def test_unrolled_has_the_friction_of_mujocos_c(timestep):
    """All around, and at μ = 1 and 10 ms, where the block hops and meets 0.82 μmg in both."""
    directions, frictions = (0.0, 20.0, 90.0, 135.0, 200.0, 333.0), (0.02, 0.3, 1.0)
    found = np.asarray(friction.table("unrolled", UNROLLED_SOLVER, timestep, directions)["ratio"])
    _, system = friction.block("unrolled", UNROLLED_SOLVER, timestep)
    model = solver_of(system.mj_model, UNROLLED_SOLVER)
    for mu in frictions:
        ours = found[0, friction.FRICTIONS.index(mu)]
        theirs = [mujocos_ratio(model, mu, degrees) for degrees in directions]
        np.testing.assert_allclose(ours, theirs, atol=0.002)


def mujocos_ratio(model, mu, degrees):
    """Force over μmg on a block pushed with 1.25 μmg, as `friction.measured` has it."""
    model.geom_friction[:, 0] = mu
    data = mujoco.MjData(model)
    steps, coulomb = int(0.5 / model.opt.timestep), mu * friction.MASS * friction.GRAVITY
    along = np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])
    mujoco.mj_step(model, data, 2 * steps)
    data.ctrl[:] = 1.25 * coulomb * along
    mujoco.mj_step(model, data, steps // 2)
    before = data.qvel[:2] @ along
    mujoco.mj_step(model, data, steps - steps // 2)
    seconds = (steps - steps // 2) * model.opt.timestep
    change = (data.qvel[:2] @ along - before) / seconds
    return (1.25 * coulomb - friction.MASS * change) / coulomb


def test_generalized_has_hardly_any_friction_at_low_mu():
    found = ratios("generalized", None)
    mu = np.asarray(friction.FRICTIONS)
    assert (np.abs(found[mu <= 0.1]) < 0.02).all()
    assert (found[(mu >= 0.3) & (mu <= 0.5)] > 0.6).all()
