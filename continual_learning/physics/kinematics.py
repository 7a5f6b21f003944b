"""The poses of bodies and how joints move them, relative to the robot.

Positions are relative to the origin of the robot, which is the point to which the slides or the
free joint of its root have carried it. In float32 they are then as accurate far from the world's
origin as near it, and a free joint turns the robot about zero, which saves arithmetic.
"""

from __future__ import annotations

from typing import NamedTuple

from continual_learning.physics import spatial
from continual_learning.physics.model import Model
from continual_learning.physics.scalars import Scalar
from continual_learning.physics.spatial import Inertia, Mat, Quat, Spatial, Vec
from continual_learning.physics.tree import Vector


class Frames(NamedTuple):
    """Poses of the bodies and motions of the joints.

    Attributes:
      origin: by body, the origin of its robot in the world.
      position: by body, its position relative to the origin.
      rotation: by body, its rotation as a quaternion.
      turn: by body, its rotation as a matrix.
      center: by body, its center of mass relative to the origin.
      motion: by velocity, the motion of all bodies above it per unit, about the origin.
    """

    origin: tuple[Vec, ...]
    position: tuple[Vec, ...]
    rotation: tuple[Quat, ...]
    turn: tuple[Mat, ...]
    center: tuple[Vec, ...]
    motion: tuple[Spatial, ...]


def frames(model: Model, q: Vector) -> Frames:
    """Return the poses at the positions `q` (MuJoCo's mj_kinematics, and cdof of mj_comPos)."""
    origins: list[Vec] = [spatial.NOWHERE]
    positions: list[Vec] = [spatial.NOWHERE]
    rotations: list[Quat] = [spatial.UPRIGHT]
    turns: list[Mat] = [spatial.UNITS]
    centers: list[Vec] = [spatial.NOWHERE]
    motions: dict[int, Spatial] = {}
    for body in model.bodies[1:]:
        place, rotation = spatial.vec(body.position), spatial.quat(body.rotation)
        if body.parent == 0:
            origin, position = place, spatial.NOWHERE
        else:
            origin = origins[body.parent]
            position = positions[body.parent] + spatial.rotate(turns[body.parent], place)
            rotation = spatial.product(rotations[body.parent], rotation)
        turn = spatial.matrix(rotation)
        turned = False  # whether a hinge of this body has turned it
        for joint in (model.joints[joint] for joint in body.joints):
            at = joint.position
            if joint.kind == "free":
                origin = Vec(q[at : at + 3])
                w, x, y, z = q[at + 3 : at + 7]
                rotation = spatial.normalized((w, x, y, z))
                turn = spatial.matrix(rotation)
                for i in range(3):
                    motions[joint.velocity + i] = Spatial(spatial.NOWHERE, spatial.UNITS[i])
                    about = Spatial(spatial.column(turn, i), spatial.NOWHERE)
                    motions[joint.velocity + 3 + i] = about
                continue
            axis = spatial.rotate(turn, spatial.vec(joint.axis))
            moved = q[at] - joint.zero
            if joint.kind == "slide":
                motions[joint.velocity] = Spatial(spatial.NOWHERE, axis)
                if body.parent == 0 and not turned:
                    origin = origin + axis * moved
                else:
                    position = position + axis * moved
                continue
            arm = spatial.vec(joint.anchor)
            anchor = position + spatial.rotate(turn, arm)
            motions[joint.velocity] = Spatial(axis, -spatial.cross(axis, anchor))
            rotation = spatial.product(rotation, spatial.turned(spatial.vec(joint.axis), moved))
            turn, turned = spatial.matrix(rotation), True
            position = anchor - spatial.rotate(turn, arm)
        origins.append(origin)
        positions.append(position)
        rotations.append(rotation)
        turns.append(turn)
        centers.append(position + spatial.rotate(turn, spatial.vec(body.center)))
    return Frames(
        tuple(origins),
        tuple(positions),
        tuple(rotations),
        tuple(turns),
        tuple(centers),
        tuple(motions[number] for number in range(model.velocities)),
    )


def inertias(model: Model, where: Frames, mass: Scalar) -> tuple[Inertia, ...]:
    """Return the inertia of every body about the origin of its robot.

    Args:
      model: the robot.
      where: the poses of the bodies.
      mass: a factor of all masses.
    """
    result = []
    for number, body in enumerate(model.bodies):
        axes = spatial.matrix(spatial.quat(body.frame))
        own = [Vec(a * i for a, i in zip(row, body.inertia, strict=True)) for row in axes]
        x, y, z = (Vec(_clean(spatial.dot(row, axes[j])) * mass for j in range(3)) for row in own)
        result.append(
            spatial.inertia_at(
                (x, y, z), where.turn[number], where.center[number], mass * body.mass
            )
        )
    return tuple(result)


def _clean(number: Scalar) -> Scalar:
    """Return zero for a rounding error of a product of known numbers, else the number."""
    value = number.value
    return Scalar(0.0) if isinstance(value, float) and abs(value) < 1e-15 else number
