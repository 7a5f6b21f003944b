"""The cost of violated constraints, with its derivatives (MuJoCo's mj_constraintUpdate, CGeval).

The residual of a constraint is the acceleration along its rows minus the one that it asks for. Its
cost is a convex function of the residual, and its force is minus the gradient of the cost.
"""

from __future__ import annotations

from typing import NamedTuple

from continual_learning.physics.constraints import Contact
from continual_learning.physics.scalars import ONE, ZERO, Bool, Scalar, sqrt, where

Residual = tuple[Scalar, ...]


class Penalty(NamedTuple):
    """The cost of a constraint at its residual.

    Attributes:
      cost: the cost of the violation.
      force: the force along the rows.
      hessian: second derivatives of the cost, by (row, row) with the second not after the first.
    """

    cost: Scalar
    force: Residual
    hessian: dict[tuple[int, int], Scalar]


class Slope(NamedTuple):
    """A cost along a line, with its first and second derivatives."""

    cost: Scalar
    first: Scalar
    second: Scalar


def one_sided(stiffness: Scalar, residual: Scalar) -> Penalty:
    """Return the penalty of a row whose force only pushes."""
    active = where(residual < 0.0, stiffness, ZERO)
    force = -(active * residual)
    return Penalty(-(force * residual) * 0.5, (force,), {(0, 0): active})


def one_sided_slope(stiffness: Scalar, residual: Scalar, direction: Scalar) -> Slope:
    """Return the cost along a line of a row that only pushes, at the residual.

    Args:
      stiffness: the stiffness of the row.
      residual: its residual.
      direction: the change of the residual along the line.
    """
    active = where(residual < 0.0, stiffness, ZERO)
    pull = active * residual
    return Slope(pull * residual * 0.5, pull * direction, active * direction * direction)


class _Cone(NamedTuple):
    """The zone of an elliptic contact, which sticks in the bottom zone and slides in the middle."""

    normal: Scalar
    tangent: Scalar
    bottom: Bool
    middle: Bool
    stiffness: Scalar


def _cone(contact: Contact, residual: Residual) -> _Cone:
    n = contact.cone * residual[0]
    square = residual[1] * residual[1] + residual[2] * residual[2]
    t = contact.friction * sqrt(square)
    bottom = contact.cone * n + t <= 0.0
    middle = (n < contact.cone * t) & ~bottom
    squared = contact.cone * contact.cone
    stiffness = contact.stiffness / (squared * (1.0 + squared))
    return _Cone(n, where(middle, t, ONE), bottom, middle, stiffness)


def touching(contact: Contact, residual: Residual, pyramidal: bool) -> Penalty:
    """Return the penalty of a contact.

    Args:
      contact: the contact.
      residual: its residual.
      pyramidal: whether the cone of friction is a pyramid.
    """
    if len(residual) == 1:
        return one_sided(contact.stiffness, residual[0])
    if pyramidal:
        return _pyramid(contact, residual)
    cone, mu = contact.cone, contact.friction
    n, t, bottom, middle, stiffness = _cone(contact, residual)
    away = n - cone * t
    sliding = where(middle, stiffness, ZERO)
    push = -(sliding * away * cone)  # along the normal
    pull = push * mu * mu / t  # along a tangent, per residual
    full, sideways = (where(bottom, d, ZERO) for d in (contact.stiffness, contact.sideways))
    one, two = residual[1], residual[2]
    pressed = full * residual[0]
    one_pressed, two_pressed = sideways * one, sideways * two
    sticking = pressed * residual[0] + one_pressed * one + two_pressed * two
    cost = (sticking + sliding * away * away) * 0.5
    force = push - pressed, -(pull * one) - one_pressed, -(pull * two) - two_pressed

    # The derivatives of ½ stiffness (n - cone · t)², the cost of sliding.
    mixed = sliding * cone * mu * mu / t
    curved = mixed * n * mu * mu / (t * t)
    round_ = mixed * (cone * t - n)
    hessian = {
        (0, 0): full + sliding * cone * cone,
        (1, 0): -(mixed * cone * one),
        (2, 0): -(mixed * cone * two),
        (1, 1): sideways + curved * one * one + round_,
        (2, 1): curved * one * two,
        (2, 2): sideways + curved * two * two + round_,
    }
    return Penalty(cost, force, hessian)


def touching_slope(
    contact: Contact, residual: Residual, direction: Residual, pyramidal: bool
) -> Slope:
    """Return the cost of a contact along a line, at the residual.

    Args:
      contact: the contact.
      residual: its residual.
      direction: the change of the residual along the line.
      pyramidal: whether the cone of friction is a pyramid.
    """
    if len(residual) == 1:
        return one_sided_slope(contact.stiffness, residual[0], direction[0])
    if pyramidal:
        return _pyramid_slope(contact, residual, direction)
    cone, mu = contact.cone, contact.friction
    n, t, bottom, middle, stiffness = _cone(contact, residual)
    full, sideways = (where(bottom, d, ZERO) for d in (contact.stiffness, contact.sideways))
    sliding = where(middle, stiffness, ZERO)
    away = n - cone * t
    along = residual[1] * direction[1] + residual[2] * direction[2]
    length = direction[1] * direction[1] + direction[2] * direction[2]
    square = residual[1] * residual[1] + residual[2] * residual[2]
    faster = mu * mu * along / t  # derivative of t
    curve = (mu * mu * length - faster * faster) / t
    change = cone * (direction[0] - faster)
    cost = full * residual[0] * residual[0] + sideways * square + sliding * away * away
    return Slope(
        cost * 0.5,
        full * residual[0] * direction[0] + sideways * along + sliding * away * change,
        full * direction[0] * direction[0]
        + sideways * length
        + sliding * (change * change - away * cone * curve),
    )


def _pyramid(contact: Contact, residual: Residual) -> Penalty:
    mu = contact.friction
    cost, normal, sides = ZERO, ZERO, [ZERO, ZERO]
    hessian = {(0, 0): ZERO, (2, 1): ZERO}
    for tangent in (1, 2):
        plus, minus = (
            one_sided(contact.stiffness, residual[0] + mu * residual[tangent] * sign)
            for sign in (1.0, -1.0)
        )
        cost = cost + plus.cost + minus.cost
        normal = normal + plus.force[0] + minus.force[0]
        sides[tangent - 1] = mu * (plus.force[0] - minus.force[0])
        a, b = plus.hessian[0, 0], minus.hessian[0, 0]
        hessian[0, 0] = hessian[0, 0] + a + b
        hessian[tangent, 0] = mu * (a - b)
        hessian[tangent, tangent] = mu * mu * (a + b)
    return Penalty(cost, (normal, *sides), hessian)


def _pyramid_slope(contact: Contact, residual: Residual, direction: Residual) -> Slope:
    mu = contact.friction
    found = Slope(ZERO, ZERO, ZERO)
    for tangent in (1, 2):
        for sign in (1.0, -1.0):
            edge = one_sided_slope(
                contact.stiffness,
                residual[0] + mu * residual[tangent] * sign,
                direction[0] + mu * direction[tangent] * sign,
            )
            found = Slope(*(a + b for a, b in zip(found, edge, strict=True)))
    return found
