"""Reading a MuJoCo model into plain numbers; errors name the parts that are not covered."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np

NEGLIGIBLE = 1e-12
"""Smaller numbers of a model count as zero; they are rounding errors of axes and inertias."""

# mjMINVAL, mjMINIMP, mjMAXIMP and mjMINMU of MuJoCo.
MIN_VALUE, MIN_IMPEDANCE, MAX_IMPEDANCE, MIN_FRICTION = 1e-15, 0.0001, 0.9999, 1e-5

Numbers = tuple[float, ...]


class UnsupportedModel(ValueError):
    """The error for a model with something that the engine does not cover."""


@dataclasses.dataclass(frozen=True)
class Softness:
    """The softness of a constraint, as MuJoCo computes it from solref and solimp.

    Attributes:
      stiffness, damping: those of the reference acceleration, per unit of impedance and velocity.
      impedance: (least, most, width, midpoint, power), within MuJoCo's bounds.
    """

    stiffness: float
    damping: float
    impedance: Numbers


@dataclasses.dataclass(frozen=True)
class Joint:
    """A joint.

    Attributes:
      name: its name.
      kind: its type.
      body: the body that it moves.
      position, velocity: its first entry of qpos and of qvel.
      anchor, axis: its anchor and axis in the body's frame.
      zero: the position at which the body is where the file places it.
      spring: the position at which its spring is at rest.
      stiffness: the stiffness of its spring.
      force: the bounds of the motors' force on it, or None.
      limits: the bounds of its position, or None.
      margin: the distance to a bound at which the bound begins to act.
      softness: the softness of the bounds.
      weight: MuJoCo's dof_invweight0.
    """

    name: str
    kind: Literal["free", "slide", "hinge"]
    body: int
    position: int
    velocity: int
    anchor: Numbers
    axis: Numbers
    zero: float
    spring: float
    stiffness: float
    force: tuple[float, float] | None
    limits: tuple[float, float] | None
    margin: float
    softness: Softness
    weight: float


@dataclasses.dataclass(frozen=True)
class Body:
    """A body; the first one is the world.

    Attributes:
      name: its name.
      parent: the body that carries it.
      root: the body of its tree that the world carries.
      joints: the numbers of its joints, in order.
      position, rotation: its pose in its parent's frame; the rotation is a quaternion.
      center, frame: the pose of its inertia in its own frame; the frame is a quaternion.
      inertia: xx, yy, zz in that frame.
      mass: its mass.
      weight: MuJoCo's body_invweight0 of translations.
    """

    name: str
    parent: int
    root: int
    joints: tuple[int, ...]
    position: Numbers
    rotation: Numbers
    center: Numbers
    frame: Numbers
    inertia: Numbers
    mass: float
    weight: float


@dataclasses.dataclass(frozen=True)
class Touch:
    """A sphere, an end of a capsule, or a corner of a box, that may touch a plane.

    Attributes:
      geom, plane: their numbers in the model.
      body: the body that the geom is fixed to.
      center: the center of the sphere, or the corner, in the body's frame.
      axis: the axis of the capsule in the body's frame, or None.
      corner: the vector from the center of a box to the corner, which touches only where it is
        below the center; or None.
      radius: the radius of the sphere; 0 for a corner.
      point, frame: a point on the plane; its normal and two tangents.
      margin: the distance below which the contact acts.
      directions: 1 without friction, 3 with friction.
      friction: the frictions of the two geoms, of which the larger one acts; only one friction if
        one of the geoms has priority.
      softness: the softness of the contact.
      weight: MuJoCo's body_invweight0 of the two bodies.
    """

    geom: int
    plane: int
    body: int
    center: Numbers
    axis: Numbers | None
    corner: Numbers | None
    radius: float
    point: Numbers
    frame: tuple[Numbers, Numbers, Numbers]
    margin: float
    directions: int
    friction: Numbers
    softness: Softness
    weight: float


@dataclasses.dataclass(frozen=True)
class Motor:
    """A motor.

    Attributes:
      velocity: the entry of qvel that it drives.
      gear: the force on the joint per force of the motor.
      gain: the force of the motor per control.
      control, force: the bounds of its control and of its force, or None.
    """

    velocity: int
    gear: float
    gain: float
    control: tuple[float, float] | None
    force: tuple[float, float] | None


@dataclasses.dataclass(frozen=True)
class Model:
    """A robot and its ground as plain numbers.

    Attributes:
      positions, velocities: the numbers of entries of qpos and qvel.
      bodies, joints, touches, motors: its parts.
      above: by velocity, the next velocity towards the root, or -1.
      carrier: by velocity, the body that it moves.
      armature, damping: the armature and the damping, by velocity.
      gravity: the acceleration of gravity.
      timestep: the seconds of a step.
      implicit_damping: whether the integrator treats damping implicitly.
      cone: the cone of friction.
      ratio: MuJoCo's impratio.
      warm: whether the solver starts from its last solution where that is better.
      iterations, line_search: the most iterations of the solver and of a line search.
      tolerance, line_tolerance: the tolerances at which they stop.
      scale: the factor of cost and gradient where they are compared with the tolerance.
    """

    positions: int
    velocities: int
    bodies: tuple[Body, ...]
    joints: tuple[Joint, ...]
    touches: tuple[Touch, ...]
    motors: tuple[Motor, ...]
    above: tuple[int, ...]
    carrier: tuple[int, ...]
    armature: Numbers
    damping: Numbers
    gravity: Numbers
    timestep: float
    implicit_damping: bool
    cone: Literal["elliptic", "pyramidal"]
    ratio: float
    warm: bool
    iterations: int
    line_search: int
    tolerance: float
    line_tolerance: float
    scale: float


def read(model: Any) -> Model:
    """Return the numbers of a `mujoco.MjModel`.

    Raises:
      UnsupportedModel: the model has something that the engine does not cover.
    """
    import mujoco

    mj: Any = mujoco  # Its constants have no types.
    _refuse(mj, model)
    option = model.opt
    disabled = option.disableflags
    off = mj.mjtDisableBit
    return Model(
        positions=model.nq,
        velocities=model.nv,
        bodies=tuple(_body(model, number) for number in range(model.nbody)),
        joints=tuple(_joint(mj, model, number) for number in range(model.njnt)),
        touches=_touches(mj, model),
        motors=tuple(_motor(mj, model, number) for number in range(model.nu)),
        above=tuple(int(parent) for parent in model.dof_parentid),
        carrier=tuple(int(body) for body in model.dof_bodyid),
        armature=_numbers(model.dof_armature),
        damping=_numbers(model.dof_damping),
        gravity=_numbers(np.zeros(3) if disabled & off.mjDSBL_GRAVITY else option.gravity),
        timestep=float(option.timestep),
        implicit_damping=bool(
            not disabled & off.mjDSBL_EULERDAMP and np.any(model.dof_damping > 0)
        ),
        cone="elliptic" if option.cone == mj.mjtCone.mjCONE_ELLIPTIC else "pyramidal",
        ratio=max(MIN_VALUE, float(option.impratio)),
        warm=not disabled & off.mjDSBL_WARMSTART,
        iterations=int(option.iterations),
        line_search=int(option.ls_iterations),
        tolerance=float(option.tolerance),
        line_tolerance=float(option.tolerance * option.ls_tolerance),
        scale=1.0 / float(model.stat.meaninertia * max(1, model.nv)),
    )


def _refuse(mj: Any, model: Any) -> None:
    option = model.opt
    disabled, off = option.disableflags, mj.mjtDisableBit
    known = (
        off.mjDSBL_EULERDAMP
        | off.mjDSBL_GRAVITY
        | off.mjDSBL_WARMSTART
        | off.mjDSBL_REFSAFE
        | off.mjDSBL_FILTERPARENT
        | off.mjDSBL_CLAMPCTRL
        | off.mjDSBL_CONTACT
        | off.mjDSBL_LIMIT
        # The engine refuses or leaves out the parts that these turn off.
        | off.mjDSBL_SENSOR
        | off.mjDSBL_EQUALITY
        | off.mjDSBL_FRICTIONLOSS
        | off.mjDSBL_MIDPHASE
        | off.mjDSBL_NATIVECCD
        | off.mjDSBL_AUTORESET
    )
    joints = [_name(mj, model, "JOINT", number) for number in range(model.njnt)]
    motors = [_name(mj, model, "ACTUATOR", number) for number in range(model.nu)]
    type_of = mj.mjtJoint
    free_or_simple = (type_of.mjJNT_FREE, type_of.mjJNT_SLIDE, type_of.mjJNT_HINGE)
    is_free = model.jnt_type == type_of.mjJNT_FREE
    alone = model.body_jntnum[model.jnt_bodyid] == 1
    on_world = model.body_parentid[model.jnt_bodyid] == 0
    on_joint = (model.actuator_trntype == mj.mjtTrn.mjTRN_JOINT) | (
        model.actuator_trntype == mj.mjtTrn.mjTRN_JOINTINPARENT
    )
    driven = np.where(on_joint, model.actuator_trnid[:, 0], 0)
    plain = (
        on_joint
        & ~is_free[driven]
        & (model.actuator_dyntype == mj.mjtDyn.mjDYN_NONE)
        & (model.actuator_gaintype == mj.mjtGain.mjGAIN_FIXED)
        & (model.actuator_biastype == mj.mjtBias.mjBIAS_NONE)
    )
    limited = model.jnt_limited.astype(bool)
    tight = limited & (model.jnt_range[:, 1] - model.jnt_range[:, 0] < 2 * model.jnt_margin)
    reasons = {
        "the integrator (only Euler is covered)": option.integrator != mj.mjtIntegrator.mjINT_EULER,
        "the solver (only Newton is covered)": option.solver != mj.mjtSolver.mjSOL_NEWTON,
        "noslip_iterations": option.noslip_iterations > 0,
        "fluid forces (density, viscosity, wind)": option.density != 0
        or option.viscosity != 0
        or np.any(option.wind != 0),
        "gravity compensation": np.any(model.body_gravcomp != 0),
        "constraints between bodies (equality)": model.neq > 0,
        "tendons": model.ntendon > 0,
        "flexible bodies": model.nflex > 0,
        "plugins": model.nplugin > 0,
        "mocap bodies": model.nmocap > 0,
        "contact pairs": model.npair > 0,
        "contact excludes": model.nexclude > 0,
        "actuators with a state": model.na > 0,
        "dry friction of joints (frictionloss)": np.any(model.dof_frictionloss != 0),
        "flags that are enabled": option.enableflags & ~int(mj.mjtEnableBit.mjENBL_ENERGY) != 0,
        "flags that are disabled": disabled & ~int(known) != 0,
        "no velocities": model.nv == 0,
    }
    several = {
        "joints that are not free, slide or hinge": ~np.isin(
            model.jnt_type, [int(kind) for kind in free_or_simple]
        ),
        "free joints that are not the only joint of a body that the world carries": is_free
        & ~(alone & on_world),
        "springs of free joints": is_free & (model.jnt_stiffness != 0),
        "joints with a range below twice their margin": tight & ~is_free,
        "limited free joints": is_free & limited,
    }
    found = [what for what, present in reasons.items() if present]
    found += [
        f"{what}: {', '.join(name for name, bad in zip(joints, which, strict=True) if bad)}"
        for what, which in several.items()
        if np.any(which)
    ]
    if not np.all(plain):
        names = ", ".join(name for name, good in zip(motors, plain, strict=True) if not good)
        found.append(f"actuators that are not motors of one joint: {names}")
    if found:
        raise UnsupportedModel(
            "The model has what continual_learning.physics does not cover: " + "; ".join(found)
        )


def _body(model: Any, number: int) -> Body:
    first, count = int(model.body_jntadr[number]), int(model.body_jntnum[number])
    return Body(
        name=model.body(number).name,
        parent=int(model.body_parentid[number]),
        root=int(model.body_rootid[number]),
        joints=tuple(range(first, first + count)),
        position=_numbers(model.body_pos[number]),
        rotation=_numbers(model.body_quat[number]),
        center=_numbers(model.body_ipos[number]),
        frame=_numbers(model.body_iquat[number]),
        inertia=_numbers(model.body_inertia[number]),
        mass=float(model.body_mass[number]),
        weight=float(model.body_invweight0[number, 0]),
    )


def _joint(mj: Any, model: Any, number: int) -> Joint:
    kind = mj.mjtJoint(model.jnt_type[number])
    q, v = int(model.jnt_qposadr[number]), int(model.jnt_dofadr[number])
    limits_on = not model.opt.disableflags & mj.mjtDisableBit.mjDSBL_LIMIT
    return Joint(
        name=_name(mj, model, "JOINT", number),
        kind=kind.name.removeprefix("mjJNT_").lower(),
        body=int(model.jnt_bodyid[number]),
        position=q,
        velocity=v,
        anchor=_numbers(model.jnt_pos[number]),
        axis=_numbers(model.jnt_axis[number]),
        zero=float(model.qpos0[q]),
        spring=float(model.qpos_spring[q]),
        stiffness=float(model.jnt_stiffness[number]),
        force=_bounds(model.jnt_actfrcrange[number], model.jnt_actfrclimited[number]),
        limits=_bounds(model.jnt_range[number], model.jnt_limited[number] and limits_on),
        margin=float(model.jnt_margin[number]),
        softness=_softness(mj, model, model.jnt_solref[number], model.jnt_solimp[number]),
        weight=float(model.dof_invweight0[v]),
    )


def _motor(mj: Any, model: Any, number: int) -> Motor:
    clamped = not model.opt.disableflags & mj.mjtDisableBit.mjDSBL_CLAMPCTRL
    return Motor(
        velocity=int(model.jnt_dofadr[model.actuator_trnid[number, 0]]),
        gear=float(model.actuator_gear[number, 0]),
        gain=float(model.actuator_gainprm[number, 0]),
        control=_bounds(
            model.actuator_ctrlrange[number], model.actuator_ctrllimited[number] and clamped
        ),
        force=_bounds(model.actuator_forcerange[number], model.actuator_forcelimited[number]),
    )


def _touches(mj: Any, model: Any) -> tuple[Touch, ...]:
    """Return all spheres that may touch a plane, in MuJoCo's order of geoms."""
    if model.opt.disableflags & mj.mjtDisableBit.mjDSBL_CONTACT:
        return ()
    kinds = mj.mjtGeom
    unsupported, touches = [], []
    for one in range(model.ngeom):
        for two in range(one + 1, model.ngeom):
            if not _meet(mj, model, one, two):
                continue
            plane, geom = sorted((one, two), key=lambda number: model.geom_type[number])
            shape = model.geom_type[geom]
            static = model.body_weldid[model.geom_bodyid[plane]] == 0
            if (
                model.geom_type[plane] != kinds.mjGEOM_PLANE
                or shape not in (kinds.mjGEOM_SPHERE, kinds.mjGEOM_CAPSULE, kinds.mjGEOM_BOX)
                or not static
            ):
                names = (_name(mj, model, "GEOM", number) for number in (plane, geom))
                unsupported.append(" with ".join(names))
                continue
            touches += _touch(mj, model, plane, geom)
    if unsupported:
        raise UnsupportedModel(
            "continual_learning.physics covers contacts of fixed planes with spheres, "
            f"capsules and boxes alone; the model also has: {', '.join(unsupported)}. contype and "
            "conaffinity say which geoms meet."
        )
    return tuple(touches)


def _meet(mj: Any, model: Any, one: int, two: int) -> bool:
    """Return whether MuJoCo would look for contacts between two geoms."""
    a, b = model.geom_bodyid[one], model.geom_bodyid[two]
    weld, parent = model.body_weldid, model.body_parentid
    if weld[a] == weld[b]:
        return False
    above = {weld[parent[weld[a]]] == weld[b], weld[parent[weld[b]]] == weld[a]}
    filtered = not model.opt.disableflags & mj.mjtDisableBit.mjDSBL_FILTERPARENT
    if filtered and weld[a] != 0 and weld[b] != 0 and True in above:
        return False
    kind, like = model.geom_contype, model.geom_conaffinity
    return bool(kind[one] & like[two] or kind[two] & like[one])


def _touch(mj: Any, model: Any, plane: int, geom: int) -> list[Touch]:
    names = ("priority", "condim", "gap", "margin", "solmix", "solref", "solimp", "friction")
    first, second = (
        {name: getattr(model, f"geom_{name}")[number] for name in names} for number in (plane, geom)
    )
    if first["priority"] != second["priority"]:
        chosen = first if first["priority"] > second["priority"] else second
        directions, solref, solimp = chosen["condim"], chosen["solref"], chosen["solimp"]
        friction = (float(chosen["friction"][0]),)
    else:
        directions = max(first["condim"], second["condim"])
        mix = _mix(first["solmix"], second["solmix"])
        refs = first["solref"], second["solref"]
        if refs[0][0] > 0 and refs[1][0] > 0:
            solref = mix * refs[0] + (1 - mix) * refs[1]
        else:
            solref = np.minimum(*refs)
        solimp = mix * first["solimp"] + (1 - mix) * second["solimp"]
        friction = float(first["friction"][0]), float(second["friction"][0])
    if directions not in (1, 3):
        raise UnsupportedModel(
            f"continual_learning.physics covers contacts of condim 1 and 3; "
            f"{_name(mj, model, 'GEOM', geom)} has {directions}."
        )
    frame, point = _plane(mj, model, plane)
    rotation = _rotation(model.geom_quat[geom])
    shape, size = model.geom_type[geom], model.geom_size[geom]
    box = shape == mj.mjtGeom.mjGEOM_BOX
    axis = rotation[:, 2] if shape == mj.mjtGeom.mjGEOM_CAPSULE else None
    if box:
        signs = [(x, y, z) for z in (-1, 1) for y in (-1, 1) for x in (-1, 1)]
        ends = [rotation @ (size * sign) for sign in signs]
    else:
        ends = [np.zeros(3)] if axis is None else [size[1] * axis, -size[1] * axis]
    body = int(model.geom_bodyid[geom])
    bodies = [model.geom_bodyid[plane], body]
    margin = max(first["margin"], second["margin"]) - max(first["gap"], second["gap"])
    return [
        Touch(
            geom=geom,
            plane=plane,
            body=body,
            center=_numbers(model.geom_pos[geom] + end),
            axis=None if axis is None else _numbers(axis),
            corner=_numbers(end) if box else None,
            radius=0.0 if box else float(size[0]),
            point=point,
            frame=frame,
            margin=float(margin),
            directions=int(directions),
            friction=friction,
            softness=_softness(mj, model, solref, solimp),
            weight=float(model.body_invweight0[bodies, 0].sum()),
        )
        for end in ends
    ]


def _mix(one: float, two: float) -> float:
    """Return the weight of the first of two geoms, from their solmix."""
    if one >= MIN_VALUE and two >= MIN_VALUE:
        return one / (one + two)
    if one < MIN_VALUE and two < MIN_VALUE:
        return 0.5
    return 0.0 if one < MIN_VALUE else 1.0


def _plane(mj: Any, model: Any, number: int) -> tuple[tuple[Numbers, Numbers, Numbers], Numbers]:
    """Return the frame of a fixed plane, as mju_makeFrame computes it, and a point on the plane."""
    data = mj.MjData(model)
    mj.mj_kinematics(model, data)
    normal = data.geom_xmat[number].reshape(3, 3)[:, 2]
    tangent = np.eye(3)[1 if abs(normal[1]) < 0.5 else 2]
    tangent = tangent - normal * (normal @ tangent)
    tangent /= np.linalg.norm(tangent)
    frame = normal, tangent, np.cross(normal, tangent)
    one, two, three = (_numbers(direction) for direction in frame)
    return (one, two, three), _numbers(data.geom_xpos[number])


def _softness(mj: Any, model: Any, solref: Any, solimp: Any) -> Softness:
    """Return the softness that mj_makeImpedance computes from solref and solimp."""
    time, ratio = float(solref[0]), float(solref[1])
    if (time > 0) != (ratio > 0):
        time, ratio = 0.02, 1.0  # MuJoCo takes its defaults where the two formats are mixed.
    if time > 0 and not model.opt.disableflags & mj.mjtDisableBit.mjDSBL_REFSAFE:
        time = max(time, 2 * float(model.opt.timestep))
    bounds = MIN_IMPEDANCE, MAX_IMPEDANCE
    least, most, middle = (float(np.clip(solimp[i], *bounds)) for i in (0, 1, 3))
    if time > 0:
        stiffness = 1 / max(MIN_VALUE, (most * time * ratio) ** 2)
        damping = 2 / max(MIN_VALUE, most * time)
    else:
        stiffness = -time / max(MIN_VALUE, most**2)
        damping = -ratio / max(MIN_VALUE, most)
    width, power = max(0.0, float(solimp[2])), max(1.0, float(solimp[4]))
    return Softness(stiffness, damping, (least, most, width, middle, power))


def _rotation(quaternion: Any) -> np.ndarray:
    w, x, y, z = quaternion
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def _bounds(values: Any, limited: Any) -> tuple[float, float] | None:
    return (float(values[0]), float(values[1])) if limited else None


def _numbers(values: Iterable[float]) -> Numbers:
    return tuple(0.0 if abs(value) < NEGLIGIBLE else float(value) for value in values)


def _name(mj: Any, model: Any, kind: str, number: int) -> str:
    name = mj.mj_id2name(model, getattr(mj.mjtObj, f"mjOBJ_{kind}"), number)
    return name or f"{kind.lower()} {number}"
