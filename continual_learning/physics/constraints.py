"""Contacts and joint limits as rows of soft constraints (mj_collision, mj_makeConstraint)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from continual_learning.physics import spatial
from continual_learning.physics.kinematics import Frames
from continual_learning.physics.model import (
    MAX_IMPEDANCE,
    MIN_FRICTION,
    MIN_VALUE,
    Model,
    Softness,
    Touch,
)
from continual_learning.physics.scalars import (
    ONE,
    ZERO,
    Bool,
    Number,
    Scalar,
    both,
    maximum,
    minimum,
    raised,
    total,
    where,
)
from continual_learning.physics.spatial import Vec
from continual_learning.physics.tree import Tree, Vector

Row = dict[int, Scalar]
"""A row of a Jacobian: its entries by the number of the velocity."""


class Limit(NamedTuple):
    """The nearer bound of a joint.

    Attributes:
      velocity: the number of the joint's velocity.
      sign: the row's only entry: 1 at the lower bound, -1 at the upper one.
      distance: the distance to the bound; negative beyond it.
      active: whether the bound acts.
      stiffness: MuJoCo's efc_D, 0 where the bound does not act.
      reference: MuJoCo's efc_aref, the acceleration along the row that the bound asks for.
    """

    velocity: int
    sign: Scalar
    distance: Scalar
    active: Bool
    stiffness: Scalar
    reference: Scalar


class Contact(NamedTuple):
    """The contact of a sphere with a plane.

    Attributes:
      rows: the Jacobian along the normal and, with friction, along two tangents.
      distance: the distance of the surfaces; negative where they overlap.
      position: the position in the world.
      frame: the normal and two tangents.
      active: whether the contact acts.
      friction: its coefficient; 0 without friction.
      cone: MuJoCo's mu, the friction of the regularized cone.
      stiffness: MuJoCo's efc_D along the normal, 0 where the contact does not act.
      sideways: the stiffness along a tangent; all edges of a pyramidal cone have that of the
        normal.
      reference: reference accelerations along the rows. For an edge of a pyramidal cone it is the
        first one plus or minus the friction times one of the others.
    """

    rows: tuple[Row, ...]
    distance: Scalar
    position: Vec
    frame: tuple[Vec, Vec, Vec]
    active: Bool
    friction: Scalar
    cone: Scalar
    stiffness: Scalar
    sideways: Scalar
    reference: tuple[Scalar, ...]


class Constraints(NamedTuple):
    """All constraints that may act."""

    limits: tuple[Limit, ...]
    contacts: tuple[Contact, ...]


def along(row: Row, x: Vector) -> Scalar:
    """Return the product of a row and a vector."""
    return total([entry * x[i] for i, entry in row.items()])


def limits(model: Model, q: Vector, v: Vector, reach: Scalar) -> tuple[Limit, ...]:
    """Return the nearer bound of every limited joint.

    Args:
      model: the robot.
      q: the positions.
      v: the velocities.
      reach: a factor of all bounds.
    """
    found = []
    for joint in model.joints:
        if joint.limits is None:
            continue
        low = q[joint.position] - reach * joint.limits[0]
        high = reach * joint.limits[1] - q[joint.position]
        sign = where(low < high, ONE, -ONE)
        distance = minimum(low, high)
        active = distance < joint.margin
        beyond = distance - joint.margin
        give = impedance(joint.softness, beyond)
        regular = maximum((1.0 - give) * joint.weight / give, MIN_VALUE)
        reference = (
            -(sign * v[joint.velocity] * joint.softness.damping)
            - give * beyond * joint.softness.stiffness
        )
        stiffness = where(active, ONE / regular, ZERO)
        found.append(Limit(joint.velocity, sign, distance, active, stiffness, reference))
    return tuple(found)


def contacts(
    model: Model, tree: Tree, places: Frames, v: Vector, friction: Scalar | None
) -> tuple[Contact, ...]:
    """Return all contacts with the ground that may act.

    Args:
      model: the robot and its ground.
      tree: the tree of the velocities.
      places: the poses of the bodies.
      v: the velocities.
      friction: the friction of every geom, or None for that of the model.
    """
    found = (_contact(model, tree, places, v, friction, touch) for touch in model.touches)
    return tuple(contact for contact in found if contact is not None)


def _contact(
    model: Model,
    tree: Tree,
    places: Frames,
    v: Vector,
    friction: Scalar | None,
    touch: Touch,
) -> Contact | None:
    body, softness = touch.body, touch.softness
    normal = spatial.vec(touch.frame[0])
    turn = places.turn[body]
    center = places.position[body] + spatial.rotate(turn, spatial.vec(touch.center))
    origin = places.origin[body]
    height = spatial.dot(normal, origin - spatial.vec(touch.point)) + spatial.dot(normal, center)
    distance = height - touch.radius
    point = center - normal * (distance * 0.5 + touch.radius)
    active = distance < touch.margin
    if touch.corner is not None:
        arm = spatial.rotate(turn, spatial.vec(touch.corner))
        active = both(spatial.dot(normal, arm) <= 0.0, active)
    if isinstance(active, np.bool_) and not active:
        return None  # The upper corners of a box that cannot turn never touch.

    frame = normal, spatial.vec(touch.frame[1]), spatial.vec(touch.frame[2])
    if model.cone == "pyramidal" and touch.axis is not None:
        # A circular cone is the same for all tangents, but a pyramid depends on their direction.
        frame = _aligned(normal, spatial.rotate(turn, spatial.vec(touch.axis)))
    rows = _jacobian(model, tree, places, body, point, frame[: touch.directions])
    speeds = [along(row, v) for row in rows]

    beyond = distance - touch.margin
    give = impedance(softness, beyond)
    reference = [-(speed * softness.damping) for speed in speeds]
    reference[0] = reference[0] - give * beyond * softness.stiffness
    mu = ZERO
    if touch.directions > 1:
        mu = Scalar(max(touch.friction)) if friction is None else friction
        mu = maximum(mu, MIN_FRICTION)
    cone = mu * (1 / model.ratio**0.5)
    weight: Number = touch.weight
    if model.cone == "pyramidal" and touch.directions > 1:
        weight = (1.0 + mu * mu) * weight
    regular = maximum((1.0 - give) * weight / give, MIN_VALUE)
    if model.cone == "pyramidal" and touch.directions > 1:
        regular = 2.0 * cone * cone * regular
    stiffness = where(active, ONE / regular, ZERO)
    return Contact(
        rows=tuple(rows),
        distance=distance,
        position=origin + point,
        frame=frame,
        active=active,
        friction=mu,
        cone=cone,
        stiffness=stiffness,
        sideways=stiffness * model.ratio,
        reference=tuple(reference),
    )


def _jacobian(
    model: Model,
    tree: Tree,
    places: Frames,
    body: int,
    point: Vec,
    directions: tuple[Vec, ...],
) -> list[Row]:
    """Return how a point of a body moves along directions, by the velocities that move it."""
    rows: list[Row] = [{} for _ in directions]
    while body and not model.bodies[body].joints:
        body = model.bodies[body].parent
    if not body:
        return rows
    last = model.joints[model.bodies[body].joints[-1]]
    leaf = last.velocity + (5 if last.kind == "free" else 0)
    for i in sorted(tree.chains[leaf]):
        moves = places.motion[i]
        velocity = moves.linear + spatial.cross(moves.angular, point)
        for row, direction in zip(rows, directions, strict=True):
            row[i] = spatial.dot(direction, velocity)
    return rows


def _aligned(normal: Vec, axis: Vec) -> tuple[Vec, Vec, Vec]:
    """Return a frame whose first tangent is along the axis of a capsule."""
    tangent = axis - normal * spatial.dot(normal, axis)
    square = spatial.dot(tangent, tangent)
    sound = square > spatial.TINY**2
    scale = ONE / spatial.sqrt(where(sound, square, ONE))
    first = Vec(
        where(sound, entry * scale, other)
        for entry, other in zip(tangent, spatial.UNITS[0], strict=True)
    )
    return normal, first, spatial.cross(normal, first)


def impedance(softness: Softness, beyond: Scalar) -> Scalar:
    """Return how firmly a constraint acts at a distance beyond its margin (getimpedance)."""
    least, most, width, middle, power = softness.impedance
    if least == most or width <= MIN_VALUE:
        return Scalar(0.5 * (least + most))
    x = minimum(maximum(beyond, -beyond) * (1 / width), 1.0)
    if power == 1.0:
        return least + x * (most - least)
    lower = raised(x, power) * (1 / middle ** (power - 1))
    upper = 1.0 - raised(1.0 - x, power) * (1 / (1 - middle) ** (power - 1))
    give = least + where(x <= middle, lower, upper) * (most - least)
    return minimum(give, MAX_IMPEDANCE)
