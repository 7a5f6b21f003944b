"""The mass matrix, and the forces of inertia, gravity, springs, dampers and motors."""

from __future__ import annotations

from typing import NamedTuple

from continual_learning.physics import spatial
from continual_learning.physics.kinematics import Frames
from continual_learning.physics.model import Model
from continual_learning.physics.scalars import ZERO, Scalar, clip
from continual_learning.physics.spatial import Inertia, Spatial
from continual_learning.physics.tree import Matrix, Tree, Vector, add


def mass_matrix(model: Model, tree: Tree, where: Frames, inertias: tuple[Inertia, ...]) -> Matrix:
    """Return the mass matrix, armature included, by the composite-rigid-body algorithm (mj_crb).

    Args:
      model: the robot.
      tree: the tree of the velocities.
      where: the poses of the bodies.
      inertias: the inertia of every body about its origin.
    """
    composite = list(inertias)
    for number in reversed(range(1, len(model.bodies))):
        parent = model.bodies[number].parent
        if parent:
            composite[parent] = spatial.together(composite[parent], composite[number])
    matrix: Matrix = {}
    for i in range(model.velocities):
        force = spatial.momentum(composite[model.carrier[i]], where.motion[i])
        for j in tree.chains[i]:
            add(matrix, (i, j), spatial.power(where.motion[j], force))
        add(matrix, (i, i), Scalar(model.armature[i]))
    return matrix


class Motion(NamedTuple):
    """The motion of the bodies.

    Attributes:
      velocity: by body, its velocity about the origin of its robot.
      change: by velocity, how its motion changes while the robot moves (MuJoCo's cdof_dot).
    """

    velocity: tuple[Spatial, ...]
    change: tuple[Spatial, ...]


def motion(model: Model, where: Frames, v: Vector) -> Motion:
    """Return the velocities of the bodies (mj_comVel).

    Args:
      model: the robot.
      where: the poses of the bodies.
      v: the velocities.
    """
    velocities: list[Spatial] = [spatial.STILL]
    changes: dict[int, Spatial] = {}
    for body in model.bodies[1:]:
        velocity = velocities[body.parent]
        for joint in (model.joints[number] for number in body.joints):
            first = joint.velocity
            groups = [[first]]
            if joint.kind == "free":
                groups = [[first, first + 1, first + 2], [first + 3, first + 4, first + 5]]
            for group in groups:
                before = velocity
                for number in group:
                    moves = where.motion[number]
                    # A free joint's translations are along the axes of the world.
                    fixed = joint.kind == "free" and group is groups[0]
                    change = spatial.STILL if fixed else spatial.cross_motion(before, moves)
                    changes[number] = change
                    velocity = spatial.plus(velocity, spatial.scaled(moves, v[number]))
        velocities.append(velocity)
    return Motion(tuple(velocities), tuple(changes[i] for i in range(model.velocities)))


def bias(
    model: Model,
    where: Frames,
    inertias: tuple[Inertia, ...],
    moving: Motion,
    v: Vector,
    gravity: Scalar,
) -> Vector:
    """Return Coriolis, centrifugal and gravitational forces, by recursive Newton-Euler (mj_rne).

    Args:
      model: the robot.
      where: the poses of the bodies.
      inertias: the inertia of every body about its origin.
      moving: the motion of the bodies.
      v: the velocities.
      gravity: a factor of the model's gravity.
    """
    up = spatial.vec(model.gravity) * gravity
    accelerations = [Spatial(spatial.NOWHERE, -up)]
    forces = [spatial.STILL]
    for number, body in enumerate(model.bodies[1:], 1):
        acceleration = accelerations[body.parent]
        for joint in (model.joints[joint] for joint in body.joints):
            for i in range(joint.velocity, joint.velocity + (6 if joint.kind == "free" else 1)):
                change = spatial.scaled(moving.change[i], v[i])
                acceleration = spatial.plus(acceleration, change)
        accelerations.append(acceleration)
        inertia, velocity = inertias[number], moving.velocity[number]
        carried = spatial.cross_force(velocity, spatial.momentum(inertia, velocity))
        forces.append(spatial.plus(spatial.momentum(inertia, acceleration), carried))
    for number in reversed(range(1, len(model.bodies))):
        parent = model.bodies[number].parent
        if parent:
            forces[parent] = spatial.plus(forces[parent], forces[number])
    return tuple(
        spatial.power(where.motion[i], forces[model.carrier[i]]) for i in range(model.velocities)
    )


def passive(model: Model, q: Vector, v: Vector, damping: Scalar) -> Vector:
    """Return the forces of springs and dampers (mj_passive).

    Args:
      model: the robot.
      q: the positions.
      v: the velocities.
      damping: a factor of the dampers.
    """
    forces = [-(speed * model.damping[i] * damping) for i, speed in enumerate(v)]
    for joint in model.joints:
        if joint.stiffness:
            stretched = q[joint.position] - joint.spring
            forces[joint.velocity] = forces[joint.velocity] - stretched * joint.stiffness
    return tuple(forces)


def actuation(model: Model, control: Vector, strength: Scalar) -> Vector:
    """Return the forces of the motors (mj_fwdActuation).

    Args:
      model: the robot.
      control: the controls of the motors.
      strength: a factor of their gears.
    """
    forces = [ZERO] * model.velocities
    for motor, wanted in zip(model.motors, control, strict=True):
        force = (clip(wanted, *motor.control) if motor.control else wanted) * motor.gain
        if motor.force:
            force = clip(force, *motor.force)
        pulled = force * motor.gear * strength
        forces[motor.velocity] = forces[motor.velocity] + pulled
    for joint in model.joints:
        if joint.force:
            forces[joint.velocity] = clip(forces[joint.velocity], *joint.force)
    return tuple(forces)
