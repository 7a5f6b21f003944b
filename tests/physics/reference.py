"""Robots, random states of them, and what MuJoCo's C makes of these."""

import copy
import os
from functools import cache
from typing import NamedTuple

import brax
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from brax.io import mjcf

from continual_learning.physics import Engine, State, unroll
from continual_learning.physics.scalars import stacked

ASSETS = os.path.join(os.path.dirname(brax.__file__), "envs", "assets")

EVERYTHING = """
<mujoco>
  <compiler angle="radian"/>
  <option timestep="0.004" impratio="3" gravity="0.3 0 -9"/>
  <default><geom friction="0.6 0.1 0.1"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="9 9 9" euler="0.1 0.05 0.3" pos="0 0 -0.1" margin="0.02"
      solref="0.03 0.9" solimp="0.7 0.95 0.02 0.4 3" solmix="2" contype="0"/>
    <geom name="wall" type="plane" size="9 9 9" pos="-1 0 0" euler="0 1.5707963267948966 0"
      priority="1" friction="0.3 0.1 0.1" solref="-900 -40" contype="0" conaffinity="2"/>
    <body name="cart" pos="0 0 0.5">
      <joint name="turn" type="hinge" axis="0 0.6 0.8" pos="0.1 0 0.05" springref="0.2"
        stiffness="3" damping="0.4"/>
      <joint name="along" type="slide" axis="1 0.2 0" range="-0.5 0.5" limited="true" margin="0.05"
        stiffness="20" damping="2" armature="0.1" solimplimit="0.5 0.99 0.1 0.3 1"
        solreflimit="-500 -20"/>
      <geom name="box" type="box" size="0.2 0.1 0.15" euler="0.2 0.1 0" mass="2" contype="3"
        conaffinity="0" gap="0.01"/>
      <body name="welded" pos="0.2 0 0" euler="0 0.4 0">
        <geom name="bare" type="sphere" size="0.1" mass="0.5" pos="0 0.1 0" condim="1"
          conaffinity="0"/>
        <body name="arm" pos="0 0.3 0">
          <joint name="elbow" type="hinge" axis="1 1 0" ref="0.3" range="-1 1" limited="true"
            damping="0.2" actuatorfrcrange="-3 3" actuatorfrclimited="true"/>
          <geom name="fore" type="capsule" fromto="0 0 0 0.1 0.3 -0.2" size="0.05" contype="3"
            conaffinity="0"/>
          <body name="hand" pos="0.1 0.3 -0.2">
            <joint name="reach" type="slide" axis="0 1 0"/>
            <joint name="wrist" type="hinge" axis="0 0 1" pos="0 0.1 0"/>
            <geom name="palm" type="ellipsoid" size="0.1 0.05 0.07" pos="0.05 0.05 0" contype="0"
              conaffinity="0"/>
          </body>
        </body>
      </body>
    </body>
    <body name="ball" pos="2 0 0.4" euler="0.3 0 0">
      <freejoint name="free"/>
      <geom name="ball" type="capsule" size="0.2 0.1" contype="3" conaffinity="0"/>
      <geom name="load" type="box" size="0.1 0.2 0.1" pos="0.1 0 0.2" contype="0" conaffinity="0"/>
    </body>
  </worldbody>
  <actuator>
    <motor joint="turn" gear="5" ctrllimited="true" ctrlrange="-0.5 0.7"/>
    <motor joint="elbow" gear="4" forcelimited="true" forcerange="-0.4 0.6"/>
    <motor joint="elbow" gear="-2"/>
    <motor joint="reach"/>
  </actuator>
</mujoco>
"""
"""Two trees, two planes, and what the robots do not have."""


class Options(NamedTuple):
    """Of a model."""

    cone: str
    iterations: int
    line_search: int
    implicit: bool = False


CONVERGED = 100, 50
ROBOTS = {
    "ant": Options("elliptic", 2, 4),
    "humanoid": Options("elliptic", 2, 8),
    "half_cheetah": Options("elliptic", 4, 50, implicit=True),
    "hopper": Options("pyramidal", *CONVERGED, implicit=True),
    "walker2d": Options("pyramidal", 2, 6),
    "everything": Options("elliptic", 3, 12, implicit=True),
}
"""As our tasks have them, or else all settings once."""


@cache
def _loaded(robot):
    if robot == "everything":
        return mujoco.MjModel.from_xml_string(EVERYTHING)
    return mjcf.load_mjmodel(os.path.join(ASSETS, f"{robot}.xml"))


def model_of(robot, options):
    """MuJoCo's model."""
    model = copy.copy(_loaded(robot))
    cones = mujoco.mjtCone
    model.opt.cone = getattr(cones, f"mjCONE_{options.cone.upper()}")
    model.opt.iterations, model.opt.ls_iterations = options.iterations, options.line_search
    if not options.implicit:
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_EULERDAMP
    return model


class Sample(NamedTuple):
    """States with what acts on them, environments last."""

    qpos: np.ndarray
    qvel: np.ndarray
    warm: np.ndarray
    control: np.ndarray
    friction: np.ndarray


def sample(model, count, seed=0):
    """Random states: deep in the ground and above it, within joint limits and beyond."""
    rng = np.random.default_rng(seed)
    qpos = np.tile(model.qpos0[:, None], (1, count))
    for joint in range(model.njnt):
        at = model.jnt_qposadr[joint]
        if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE:
            qpos[at : at + 2] += rng.normal(size=(2, count))
            qpos[at + 2] *= rng.uniform(-0.1, 1.2, count)
            upright = np.array([1.0, 0, 0, 0])[:, None] + 0.1 * rng.normal(size=(4, count))
            any_way = rng.normal(size=(4, count))
            qpos[at + 3 : at + 7] = np.where(np.arange(count) % 2, any_way, upright)
        elif model.jnt_limited[joint]:
            low, high = model.jnt_range[joint]
            qpos[at] = rng.uniform(1.1 * low - 0.1 * high, 1.1 * high - 0.1 * low, count)
        else:
            sinks = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE
            qpos[at] += rng.uniform(-1.3, 0.2, count) if sinks else 0.4 * rng.normal(size=count)
    return Sample(
        qpos,
        2 * rng.normal(size=(model.nv, count)),
        10 * rng.normal(size=(model.nv, count)),
        rng.normal(size=(model.nu, count)),
        np.exp(rng.uniform(np.log(0.02), np.log(2), count)),
    )


def mujocos(model, states):
    """{quantity: [..., envs]} by MuJoCo's C, one state after the other."""
    model = copy.copy(model)
    data = mujoco.MjData(model)
    rows = []
    for i in range(states.qpos.shape[1]):
        mujoco.mj_resetData(model, data)
        model.geom_friction[:, 0] = states.friction[i]
        data.qpos[:], data.qvel[:] = states.qpos[:, i], states.qvel[:, i]
        data.ctrl[:], data.qacc_warmstart[:] = states.control[:, i], states.warm[:, i]
        mujoco.mj_forward(model, data)
        mass = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, mass, data.qM)
        velocity = np.zeros((model.nbody, 6))
        for body in range(model.nbody):
            mujoco.mj_objectVelocity(
                model, data, mujoco.mjtObj.mjOBJ_XBODY, body, velocity[body], 0
            )
        row = {
            "position": data.xpos,
            "center": data.xipos,
            "turn": data.xmat.reshape(-1, 3, 3),
            "angular": velocity[:, :3],
            "linear": velocity[:, 3:],
            "mass_matrix": mass,
            "bias": data.qfrc_bias,
            "passive": data.qfrc_passive,
            "actuation": data.qfrc_actuator,
            "free": data.qacc_smooth,
            "acceleration": data.qacc,
            "constraint": data.qfrc_constraint,
        }
        row |= _rows(model, data)
        row = {name: np.array(value) for name, value in row.items()}
        mujoco.mj_Euler(model, data)
        rows.append(row | {"qpos": data.qpos.copy(), "qvel": data.qvel.copy()})
    return {name: np.stack([row[name] for row in rows], axis=-1) for name in rows[0]}


def _rows(model, data):
    """Constraints that act, as tables whose other entries are zero.

    A limit is at its joint. A contact is at its geom and, of those of one geom, at a place by its
    position. Tangents may be turned, so that what is along them is given in the world.
    """
    limit = np.zeros((model.njnt, 4))
    contact = np.zeros((model.ngeom, 5))
    wrench = np.zeros((model.ngeom, 4, model.nv))
    jacobian = data.efc_J.reshape(-1, model.nv) if data.nefc else np.zeros((0, model.nv))
    for row in range(data.nefc):
        if data.efc_type[row] == mujoco.mjtConstraint.mjCNSTR_LIMIT_JOINT:
            joint = data.efc_id[row]
            sign = jacobian[row, model.jnt_dofadr[joint]]
            limit[joint] = sign, data.efc_pos[row], data.efc_D[row], data.efc_aref[row]
    for each in data.contact:
        first, dim = each.efc_address, each.dim
        if first < 0:
            continue
        pyramid = dim == 3 and model.opt.cone == mujoco.mjtCone.mjCONE_PYRAMIDAL
        size = 2 * (dim - 1) if pyramid else dim
        j, reference = jacobian[first : first + size], data.efc_aref[first : first + size]
        stiff = data.efc_D[first : first + size]
        if pyramid:
            mu = each.friction[0]
            j = np.stack([(j[0] + j[1]) / 2, *((j[k] - j[k + 1]) / (2 * mu) for k in (0, 2))])
            reference = np.array(
                [
                    (reference[0] + reference[1]) / 2,
                    *((reference[k] - reference[k + 1]) / (2 * mu) for k in (0, 2)),
                ]
            )
        frame = each.frame.reshape(3, 3)[:dim]
        # Sums over the contacts of a geom, weighted with where they are.
        place = each.pos.sum() if dim == 3 else 1.0
        friction = each.friction[0] if dim == 3 else 0.0
        sideways = stiff[1] if dim == 3 and not pyramid else 0.0
        contact[each.geom[1]] += (1.0, each.dist, place, stiff[0], sideways)
        wrench[each.geom[1], 0] += friction * (j * reference[:, None]).sum(0)
        wrench[each.geom[1], 1:] += (1 + abs(each.dist)) * frame.T @ j
    return {"limit": limit, "contact": contact, "wrench": wrench}


def ours(engine: Engine, geoms: int, states: Sample, dtype=jnp.float64):
    """{quantity: [..., envs]} by the engine, operation by operation."""
    as_array = (jnp.asarray(x, dtype) for x in states)
    qpos, qvel, warm, control, friction = as_array
    state, parameters = State(qpos, qvel, warm), {"friction": friction}
    with jax.disable_jit():
        found = engine.dynamics(state, control, parameters)
        links = engine.links(qpos, qvel)
        after = engine.step(state, control, parameters)
        like = qvel[0]

        def array(numbers):
            return np.asarray(stacked(numbers, like))

        return {
            "position": np.asarray(links.position),
            "center": np.asarray(links.center),
            "turn": array(found.frames.turn),
            "angular": np.asarray(links.angular),
            "linear": np.asarray(links.linear),
            "mass_matrix": array(engine.tree.dense(found.mass_matrix)),
            "bias": array(found.bias),
            "passive": array(found.passive),
            "actuation": array(found.actuation),
            "free": array(found.free),
            "acceleration": array(found.solution.acceleration),
            "constraint": array(found.solution.constraint),
            **_our_rows(engine, geoms, found, array),
            "qpos": np.asarray(after.qpos),
            "qvel": np.asarray(after.qvel),
        }


def _our_rows(engine, geoms, found, array):
    model, count = engine.model, array(found.bias).shape[1]
    limited = [i for i, joint in enumerate(model.joints) if joint.limits]
    limit = np.zeros((len(model.joints), 4, count))
    for number, each in zip(limited, found.constraints.limits, strict=True):
        row = array([each.sign, each.distance, each.stiffness, each.reference])
        limit[number] = np.where(np.asarray(each.active), row, 0)
    contact = np.zeros((geoms, 5, count))
    wrench = np.zeros((geoms, 4, model.velocities, count))
    for touch, each in zip(model.touches, found.constraints.contacts, strict=True):
        acting = np.asarray(each.active).astype(float) * np.ones(count)
        dim = touch.directions
        distance = array(each.distance)
        place = array(each.position).sum(0) if dim == 3 else np.ones(count)
        elliptic = dim == 3 and model.cone == "elliptic"
        sideways = array(each.sideways) if elliptic else np.zeros(count)
        row = np.stack([np.ones(count), distance, place, array(each.stiffness), sideways])
        contact[touch.geom] += acting * row
        j = np.zeros((dim, model.velocities, count))
        for k, entries in enumerate(each.rows):
            for i, entry in entries.items():
                j[k, i] = array(entry)
        pull = (j * array(each.reference)[:, None]).sum(0)
        wrench[touch.geom, 0] += acting * array(each.friction) * pull
        frame = array(each.frame)[:dim]
        moved = np.einsum("kce,kve->cve", frame, j)
        wrench[touch.geom, 1:] += acting * (1 + np.abs(distance)) * moved
    return {"limit": limit, "contact": contact, "wrench": wrench}


def engine_of(robot, options):
    """Our engine and MuJoCo's model."""
    model = model_of(robot, options)
    return unroll(model), model
