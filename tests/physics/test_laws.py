"""Laws that hold without a reference, and trajectories beside MuJoCo's."""

from functools import cache

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from continual_learning.physics import CPU_OPTIONS, State, unroll
from tests.physics.reference import ROBOTS, Options, engine_of, sample

PENDULUM = """
<mujoco>
  <option timestep="{timestep}"/>
  <worldbody>
    <body pos="0 0 1">
      <freejoint/><geom type="box" size="0.1 0.2 0.3" contype="0" conaffinity="0"/>
      <body pos="0.2 0 0">
        <joint axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0.5 0 0.1" size="0.05" contype="0" conaffinity="0"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
NUDGES = 5  # of a start, in its last digits
SECONDS = 1.0
FALLEN = 0.5 * 50 * 9.81**2  # joules that the body gains by falling for a second


def drift(timestep):
    """By how much the energy of a free body with a swinging arm changes in a second, [envs]."""
    model = mujoco.MjModel.from_xml_string(PENDULUM.format(timestep=timestep))
    engine = unroll(model, round(SECONDS / timestep))
    rng = np.random.default_rng(0)
    qpos, qvel = np.tile(model.qpos0[:, None], (1, 8)), rng.normal(size=(model.nv, 8))
    state = engine.state(jnp.asarray(qpos), jnp.asarray(qvel))
    control = jnp.zeros((0, 8))
    end = jax.jit(engine.step, compiler_options=CPU_OPTIONS)(state, control)
    return energy(model, end) - energy(model, state)


def energy(model, state):
    data = mujoco.MjData(model)
    found = []
    for q, v in zip(np.asarray(state.qpos).T, np.asarray(state.qvel).T, strict=True):
        data.qpos[:], data.qvel[:] = q, v
        mujoco.mj_forward(model, data)
        mujoco.mj_energyPos(model, data)
        mujoco.mj_energyVel(model, data)
        found.append(data.energy.sum())
    return np.array(found)


def test_energy_is_kept_to_the_order_of_the_integrator():
    """Semi-implicit Euler is of first order: half the time step, half the error."""
    with jax.enable_x64(True):
        coarse, fine = drift(0.004), drift(0.002)
    np.testing.assert_allclose(coarse / fine, 2.0, rtol=0.1)
    assert np.abs(fine).max() < 0.003 * FALLEN


@cache
def trajectories(robot, count, steps):
    """(qpos, MuJoCo's [steps, positions, envs]; how far MuJoCo's neighbors part [steps, envs])."""
    engine, model = engine_of(robot, ROBOTS[robot]._replace(implicit=True))
    states = sample(model, count)
    qpos, qvel = np.tile(model.qpos0[:, None], (1, count)), 0.1 * states.qvel
    rng = np.random.default_rng(1)
    controls = 0.5 * rng.normal(size=(steps, model.nu, count))
    with jax.enable_x64(True):

        def run(state, controls, friction):
            def step(state, control):
                state = engine.step(state, control, {"friction": friction})
                return state, state.qpos

            return jax.lax.scan(step, state, controls)[1]

        start = State(*(jnp.asarray(x) for x in (qpos, qvel, np.zeros_like(qvel))))
        run = jax.jit(run, compiler_options=CPU_OPTIONS)
        found = np.asarray(run(start, controls, states.friction))
    theirs = mujocos_trajectories(model, qpos, qvel, controls, states.friction)
    nudged = qvel * (1 + 1e-13 * rng.normal(size=(NUDGES, *qvel.shape)))
    near = [mujocos_trajectories(model, qpos, v, controls, states.friction) for v in nudged]
    return found, theirs, np.abs(np.stack(near) - theirs).max((0, 2))


def mujocos_trajectories(model, qpos, qvel, controls, friction):
    """qpos [steps, positions, envs] by MuJoCo's C."""
    data = mujoco.MjData(model)
    steps, _, count = controls.shape
    found = np.zeros((steps, model.nq, count))
    for i in range(count):
        mujoco.mj_resetData(model, data)
        model.geom_friction[:, 0] = friction[i]
        data.qpos[:], data.qvel[:] = qpos[:, i], qvel[:, i]
        for t in range(steps):
            data.ctrl[:] = controls[t, :, i]
            mujoco.mj_step(model, data)
            found[t, :, i] = data.qpos
    return found


@pytest.mark.parametrize(
    "robot",
    ["ant"] + [pytest.param(name, marks=pytest.mark.slow) for name in ROBOTS if name != "ant"],
)
def test_trajectories_stay_with_mujocos(robot):
    """Over 200 steps from the pose at rest, falls to the ground included.

    MuJoCo's own trajectories part where their starts differ in the last digits: a line search
    decides otherwise, or chaos grows. Until then ours are its own.
    """
    found, theirs, spread = trajectories(robot, 8, 200)
    apart = np.abs(found - theirs).max(1)
    together = np.maximum.accumulate(spread, axis=0) < 1e-8  # [steps, envs]
    assert apart[together].max() < 1e-5
    assert together[-1].mean() >= 0.5 and np.median(apart[-1]) < 1e-7


def test_parameters_are_those_of_a_changed_model():
    """Masses, damping and ranges, as when one writes to an MjModel."""
    engine, model = engine_of("hopper", Options("elliptic", 5, 12, implicit=True))
    states = sample(model, 12)
    factors = {"mass": 1.7, "damping": 0.3, "range": 0.8, "gravity": 0.6, "strength": 1.4}
    with jax.enable_x64(True), jax.disable_jit():
        qpos, qvel, warm, control, friction = (jnp.asarray(x) for x in states)
        parameters = {name: jnp.asarray(value) for name, value in factors.items()}
        after = engine.step(State(qpos, qvel, warm), control, parameters | {"friction": friction})
    model.body_mass *= factors["mass"]
    model.body_inertia *= factors["mass"]
    model.dof_damping *= factors["damping"]
    model.jnt_range *= factors["range"]
    model.opt.gravity *= factors["gravity"]
    model.actuator_gear *= factors["strength"]
    data = mujoco.MjData(model)
    for i in range(12):
        mujoco.mj_resetData(model, data)
        model.geom_friction[:, 0] = states.friction[i]
        data.qpos[:], data.qvel[:] = states.qpos[:, i], states.qvel[:, i]
        data.ctrl[:], data.qacc_warmstart[:] = states.control[:, i], states.warm[:, i]
        mujoco.mj_step(model, data)
        np.testing.assert_allclose(after.qvel[:, i], data.qvel, rtol=1e-8, atol=1e-8)
