"""Vectors, rotations, and spatial motions, forces and inertias, made of `Scalar`s.

Spatial quantities are relative to a point at rest, in the axes of the world, as in MuJoCo
(R. Featherstone, Rigid Body Dynamics Algorithms, 2008).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import jax

from continual_learning.physics.scalars import ONE, ZERO, Number, Scalar, sine_cosine, sqrt, where

TINY = 1e-15
"""MuJoCo's mjMINVAL, below which a length counts as zero."""


class Vec(tuple[Scalar, Scalar, Scalar]):
    """A vector of three scalars."""

    __slots__ = ()

    def __add__(self, other: Vec) -> Vec:  # type: ignore[override]
        return Vec(a + b for a, b in zip(self, other, strict=True))

    def __sub__(self, other: Vec) -> Vec:
        return Vec(a - b for a, b in zip(self, other, strict=True))

    def __neg__(self) -> Vec:
        return Vec(-a for a in self)

    def __mul__(self, factor: Number) -> Vec:  # type: ignore[override]
        return Vec(a * factor for a in self)


jax.tree_util.register_pytree_node(
    Vec, lambda vector: (tuple(vector), None), lambda _, parts: Vec(parts)
)

Mat = tuple[Vec, Vec, Vec]
"""A matrix [3, 3] by rows."""

Quat = tuple[Scalar, Scalar, Scalar, Scalar]
"""A unit quaternion, its real part first."""


class Spatial(NamedTuple):
    """A motion (angular and linear velocity) or a force (torque and force).

    Attributes:
      angular: the rotation, or the torque.
      linear: the velocity of the body at the reference point, or the force.
    """

    angular: Vec
    linear: Vec


class Inertia(NamedTuple):
    """The inertia of one or several bodies about the reference point.

    Attributes:
      rotational: xx, yy, zz, xy, xz, yz.
      moment: the mass times the center of mass.
      mass: the total mass.
    """

    rotational: tuple[Scalar, ...]
    moment: Vec
    mass: Scalar


def vec(numbers: Iterable[float]) -> Vec:
    """Return a vector that is known at trace time."""
    return Vec(Scalar(float(number)) for number in numbers)


def quat(numbers: Iterable[float]) -> Quat:
    """Return a quaternion that is known at trace time."""
    w, x, y, z = (Scalar(float(number)) for number in numbers)
    return w, x, y, z


NOWHERE = vec((0.0, 0.0, 0.0))
STILL = Spatial(NOWHERE, NOWHERE)
UPRIGHT = quat((1.0, 0.0, 0.0, 0.0))
UNITS = (vec((1.0, 0.0, 0.0)), vec((0.0, 1.0, 0.0)), vec((0.0, 0.0, 1.0)))


def dot(a: Sequence[Scalar], b: Sequence[Scalar]) -> Scalar:
    """Return the inner product."""
    result = ZERO
    for x, y in zip(a, b, strict=True):
        result = result + x * y
    return result


def cross(a: Vec, b: Vec) -> Vec:
    """Return the cross product."""
    return Vec(
        (
            a[1] * b[2] - a[2] * b[1],
            a[2] * b[0] - a[0] * b[2],
            a[0] * b[1] - a[1] * b[0],
        )
    )


def rotate(rotation: Mat, vector: Vec) -> Vec:
    """Return the product of a matrix and a vector."""
    return Vec(dot(row, vector) for row in rotation)


def column(matrix: Mat, number: int) -> Vec:
    """Return a column of a matrix."""
    return Vec(row[number] for row in matrix)


def normalized(q: Quat) -> Quat:
    """Return a quaternion scaled to length 1, or the identity where its length is 0."""
    square = dot(q, q)
    sound = square > TINY**2
    scale = where(sound, ONE / sqrt(where(sound, square, ONE)), ZERO)
    return where(sound, q[0] * scale, ONE), q[1] * scale, q[2] * scale, q[3] * scale


def product(a: Quat, b: Quat) -> Quat:
    """Return the rotation by `b` and then by `a`."""
    return (
        a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
        a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
        a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
        a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
    )


def turned(axis: Vec, angle: Scalar) -> Quat:
    """Return the rotation about an axis of length 1."""
    sine, cosine = sine_cosine(angle * 0.5)
    x, y, z = axis * sine
    return cosine, x, y, z


def matrix(q: Quat) -> Mat:
    """Return the matrix of a unit quaternion; a rotation about one axis keeps its zeros."""
    w, x, y, z = q
    xx, yy, zz = x * x * 2.0, y * y * 2.0, z * z * 2.0
    xy, xz, yz = x * y * 2.0, x * z * 2.0, y * z * 2.0
    wx, wy, wz = w * x * 2.0, w * y * 2.0, w * z * 2.0
    return (
        Vec((1.0 - (yy + zz), xy - wz, xz + wy)),
        Vec((xy + wz, 1.0 - (xx + zz), yz - wx)),
        Vec((xz - wy, yz + wx, 1.0 - (xx + yy))),
    )


def integrated(q: Quat, velocity: Vec, seconds: float) -> Quat:
    """Return a unit quaternion turned for some seconds by an angular velocity in its own axes.

    Args:
      q: the quaternion.
      velocity: the angular velocity.
      seconds: the seconds.
    """
    square = dot(velocity, velocity)
    moving = square > TINY**2
    speed = sqrt(where(moving, square, ONE))
    sine, cosine = sine_cosine(speed * (0.5 * seconds))
    by = where(moving, sine / speed, 0.5 * seconds)
    x, y, z = velocity * by
    return product(q, (where(moving, cosine, ONE), x, y, z))


def plus(a: Spatial, b: Spatial) -> Spatial:
    """Return the sum of two motions or of two forces."""
    return Spatial(a.angular + b.angular, a.linear + b.linear)


def scaled(a: Spatial, factor: Scalar) -> Spatial:
    """Return a motion or a force times a number."""
    return Spatial(a.angular * factor, a.linear * factor)


def power(motion: Spatial, force: Spatial) -> Scalar:
    """Return the inner product of a motion and a force."""
    return dot(motion.angular, force.angular) + dot(motion.linear, force.linear)


def cross_motion(velocity: Spatial, motion: Spatial) -> Spatial:
    """Return the rate at which a motion changes that a body carries along at a velocity."""
    return Spatial(
        cross(velocity.angular, motion.angular),
        cross(velocity.angular, motion.linear) + cross(velocity.linear, motion.angular),
    )


def cross_force(velocity: Spatial, force: Spatial) -> Spatial:
    """Return the rate at which a force changes that a body carries along at a velocity."""
    return Spatial(
        cross(velocity.angular, force.angular) + cross(velocity.linear, force.linear),
        cross(velocity.angular, force.linear),
    )


def inertia_at(local: Mat, rotation: Mat, center: Vec, mass: Scalar) -> Inertia:
    """Return the inertia of a body about the reference point.

    Args:
      local: its rotational inertia about its center of mass, in its own axes.
      rotation: the rotation of its axes.
      center: its center of mass.
      mass: its mass.
    """
    half = tuple(Vec(dot(row, column(local, j)) for j in range(3)) for row in rotation)
    turned = {
        (i, j): dot(half[i], rotation[j])
        for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    }
    x, y, z = center
    moment = center * mass
    mx, my, mz = moment
    return Inertia(
        (
            turned[0, 0] + (my * y + mz * z),
            turned[1, 1] + (mx * x + mz * z),
            turned[2, 2] + (mx * x + my * y),
            turned[0, 1] - mx * y,
            turned[0, 2] - mx * z,
            turned[1, 2] - my * z,
        ),
        moment,
        mass,
    )


def together(a: Inertia, b: Inertia) -> Inertia:
    """Return the inertia of two bodies that move as one."""
    return Inertia(
        tuple(x + y for x, y in zip(a.rotational, b.rotational, strict=True)),
        a.moment + b.moment,
        a.mass + b.mass,
    )


def momentum(inertia: Inertia, motion: Spatial) -> Spatial:
    """Return the momentum, an inertia times a motion."""
    xx, yy, zz, xy, xz, yz = inertia.rotational
    w, v, h = motion.angular, motion.linear, inertia.moment
    turning = Vec(
        (
            xx * w[0] + xy * w[1] + xz * w[2],
            xy * w[0] + yy * w[1] + yz * w[2],
            xz * w[0] + yz * w[1] + zz * w[2],
        )
    )
    return Spatial(turning + cross(h, v), v * inertia.mass - cross(h, w))
