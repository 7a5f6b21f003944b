"""MuJoCo's Newton solver of the constrained acceleration (engine_solver.c), warm start included.

The acceleration minimizes ½ (a - s)ᵀ M (a - s) + the penalties of the constraints, where s is the
acceleration without constraints (E. Todorov, Convex and analytically-invertible dynamics with
contacts and constraints, ICRA 2014). The Hessian has the sparsity of the mass matrix, because
every constraint acts on one chain of the tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from continual_learning.physics import line_search
from continual_learning.physics.constraints import Constraints, along
from continual_learning.physics.loops import repeat
from continual_learning.physics.model import Model
from continual_learning.physics.penalties import (
    Penalty,
    Residual,
    Slope,
    one_sided,
    one_sided_slope,
    touching,
    touching_slope,
)
from continual_learning.physics.scalars import ZERO, Scalar, is_known, sqrt, total, where
from continual_learning.physics.spatial import TINY, dot
from continual_learning.physics.tree import Matrix, Tree, Vector, add

Residuals = tuple[Residual, ...]
"""The residuals of the limits, then those of the contacts."""


class Problem(NamedTuple):
    """The problem to solve.

    Attributes:
      matrix: the mass matrix.
      force: the forces of everything but the constraints.
      free: the acceleration that these forces cause alone.
      constraints: all constraints that may act.
    """

    matrix: Matrix
    force: Vector
    free: Vector
    constraints: Constraints


class Iterate(NamedTuple):
    """The state of the solver.

    Attributes:
      acceleration: the current acceleration.
      inertial: the mass matrix times the acceleration.
      residuals: the residuals of the constraints.
      cost: the cost before the last step; infinite before the first one.
      done: bool [envs], whether the solver has converged.
    """

    acceleration: Vector
    inertial: Vector
    residuals: Residuals
    cost: Scalar
    done: Any


class Solution(NamedTuple):
    """An acceleration, and the force of the constraints on the joints."""

    acceleration: Vector
    constraint: Vector


def solve(model: Model, tree: Tree, problem: Problem, warm: Vector, like: jax.Array) -> Solution:
    """Return the solution of a problem.

    Args:
      model: the model, with the settings of the solver.
      tree: the tree of the velocities.
      problem: the problem to solve.
      warm: the last acceleration.
      like: an array [envs] of the type of the result.
    """
    constraints = problem.constraints
    active = [each.active for kind in constraints for each in kind]
    if not active:
        return Solution(problem.free, (ZERO,) * len(tree))
    start = _started(model, tree, problem, warm)
    acting = active[0]
    for other in active[1:]:
        acting = acting | other
    first = Iterate(
        _settled(start.acceleration, like),
        _settled(start.inertial, like),
        tuple(
            _settled(residual, like, keep=_without(constraints, number))
            for number, residual in enumerate(start.residuals)
        ),
        Scalar(jnp.full_like(like, jnp.inf)),
        jnp.broadcast_to(~acting, like.shape),
    )
    last = repeat(
        model.iterations,
        lambda now: _iterate(model, tree, problem, now, like),
        first,
        lambda now: ~now.done,
    )
    forces = _forces(constraints, _penalties(model, constraints, last.residuals), len(tree))
    return Solution(last.acceleration, forces)


def _started(model: Model, tree: Tree, problem: Problem, warm: Vector) -> Iterate:
    """Return the last acceleration, or the one without constraints where that costs less."""
    constraints, done = problem.constraints, jnp.zeros((), bool)
    cold = _residuals(constraints, problem.free)
    cold_start = Iterate(problem.free, problem.force, cold, ZERO, done)
    if not model.warm:
        return cold_start
    inertial = tree.times(problem.matrix, warm)
    residuals = _residuals(constraints, warm)
    penalty = total([each.cost for each in _penalties(model, constraints, residuals)])
    cost = penalty + _gauss(problem, warm, inertial)
    cold_cost = total([each.cost for each in _penalties(model, constraints, cold)])
    better = cost > cold_cost

    def pick(one: Sequence[Scalar], other: Sequence[Scalar]) -> Vector:
        return tuple(where(better, a, b) for a, b in zip(one, other, strict=True))

    return Iterate(
        pick(problem.free, warm),
        pick(problem.force, inertial),
        tuple(pick(a, b) for a, b in zip(cold, residuals, strict=True)),
        ZERO,
        done,
    )


def _iterate(model: Model, tree: Tree, problem: Problem, now: Iterate, like: jax.Array) -> Iterate:
    constraints = problem.constraints
    penalties = _penalties(model, constraints, now.residuals)
    gauss = _gauss(problem, now.acceleration, now.inertial)
    cost = gauss + total([each.cost for each in penalties])
    pushed = _forces(constraints, penalties, len(tree))
    residual_force = tuple(a - b for a, b in zip(now.inertial, problem.force, strict=True))
    gradient = tuple(a - b for a, b in zip(residual_force, pushed, strict=True))

    improvement = (now.cost - cost) * model.scale
    steepness = sqrt(dot(gradient, gradient)) * model.scale
    converged = (improvement < model.tolerance) | (steepness < model.tolerance)
    done = now.done | ((now.cost < jnp.inf) & converged)

    hessian = _hessian(problem, penalties)
    direction = tuple(-x for x in tree.solved(tree.factorized(hessian), gradient))
    inertial = tree.times(problem.matrix, direction)
    along_rows = _along(constraints, direction)
    length = sqrt(dot(direction, direction))
    linear, square = dot(direction, residual_force), dot(direction, inertial) * 0.5

    def evaluate(distance: Scalar) -> Slope:
        slope = Slope(
            distance * (distance * square + linear) + gauss,
            distance * square * 2.0 + linear,
            square * 2.0,
        )
        parts = [slope]
        for number, (residual, change) in enumerate(zip(now.residuals, along_rows, strict=True)):
            there = tuple(a + distance * b for a, b in zip(residual, change, strict=True))
            parts.append(_slope(model, constraints, number, there, change))
        return Slope(*(total(column) for column in zip(*parts, strict=True)))

    # The Hessian is exact at the start, so the first Newton step has length 1.
    first = dot(gradient, direction)
    tiny = length < TINY
    distance = line_search.search(
        evaluate,
        Slope(cost, first, -first),
        length * (model.line_tolerance / model.scale),
        model.line_search,
        done | tiny,
    )
    done = done | ~((distance < 0.0) | (distance > 0.0))

    def moved(old: Sequence[Scalar], change: Sequence[Scalar]) -> Vector:
        return tuple(a + distance * b for a, b in zip(old, change, strict=True))

    return Iterate(
        moved(now.acceleration, direction),
        moved(now.inertial, inertial),
        tuple(moved(a, b) for a, b in zip(now.residuals, along_rows, strict=True)),
        cost,
        done,
    )


def _gauss(problem: Problem, acceleration: Vector, inertial: Vector) -> Scalar:
    """Return ½ (a - s)ᵀ M (a - s)."""
    forces = [a - b for a, b in zip(inertial, problem.force, strict=True)]
    return dot(forces, [a - b for a, b in zip(acceleration, problem.free, strict=True)]) * 0.5


def _along(constraints: Constraints, x: Vector) -> Residuals:
    """Return the Jacobian of all constraints times x."""
    limits = tuple((each.sign * x[each.velocity],) for each in constraints.limits)
    contacts = tuple(tuple(along(row, x) for row in each.rows) for each in constraints.contacts)
    return limits + contacts


def _residuals(constraints: Constraints, acceleration: Vector) -> Residuals:
    wanted = [(each.reference,) for each in constraints.limits]
    wanted += [each.reference for each in constraints.contacts]
    reached = _along(constraints, acceleration)
    return tuple(
        tuple(a - b for a, b in zip(one, other, strict=True))
        for one, other in zip(reached, wanted, strict=True)
    )


def _penalties(model: Model, constraints: Constraints, residuals: Residuals) -> list[Penalty]:
    count = len(constraints.limits)
    found = [
        one_sided(limit.stiffness, residual)
        for limit, (residual,) in zip(constraints.limits, residuals[:count], strict=True)
    ]
    return found + [
        touching(contact, residual, model.cone == "pyramidal")
        for contact, residual in zip(constraints.contacts, residuals[count:], strict=True)
    ]


def _slope(
    model: Model, constraints: Constraints, number: int, residual: Residual, change: Residual
) -> Slope:
    count = len(constraints.limits)
    if number < count:
        return one_sided_slope(constraints.limits[number].stiffness, residual[0], change[0])
    contact = constraints.contacts[number - count]
    return touching_slope(contact, residual, change, model.cone == "pyramidal")


def _forces(constraints: Constraints, penalties: list[Penalty], size: int) -> Vector:
    """Return the forces of the constraints on the joints."""
    terms: list[list[Scalar]] = [[] for _ in range(size)]
    count = len(constraints.limits)
    for limit, penalty in zip(constraints.limits, penalties[:count], strict=True):
        terms[limit.velocity].append(limit.sign * penalty.force[0])
    for contact, penalty in zip(constraints.contacts, penalties[count:], strict=True):
        for row, force in zip(contact.rows, penalty.force, strict=True):
            for i, entry in row.items():
                terms[i].append(entry * force)
    return tuple(total(each) for each in terms)


def _hessian(problem: Problem, penalties: list[Penalty]) -> Matrix:
    matrix = dict(problem.matrix)
    limits, contacts = problem.constraints
    for limit, penalty in zip(limits, penalties[: len(limits)], strict=True):
        add(matrix, (limit.velocity, limit.velocity), penalty.hessian[0, 0])
    for contact, penalty in zip(contacts, penalties[len(limits) :], strict=True):
        rows, size = contact.rows, range(len(contact.rows))
        for i in rows[0]:
            image = [
                dot([penalty.hessian[max(a, b), min(a, b)] for b in size], [r[i] for r in rows])
                for a in size
            ]
            for j in rows[0]:
                if j <= i:
                    add(matrix, (i, j), dot([row[j] for row in rows], image))
    return matrix


def _without(constraints: Constraints, number: int) -> tuple[bool, ...]:
    """Return which rows of a constraint are known at trace time to be zero."""
    count = len(constraints.limits)
    if number < count:
        return (False,)
    return tuple(
        all(is_known(entry.value, 0.0) for entry in row.values())
        for row in constraints.contacts[number - count].rows
    )


def _settled(
    numbers: Sequence[Scalar], like: jax.Array, keep: tuple[bool, ...] | None = None
) -> Vector:
    """Return the numbers as arrays [envs], except for those that `keep` leaves unchanged."""
    return tuple(
        number if kept else Scalar(jnp.broadcast_to(number.value, like.shape).astype(like.dtype))
        for number, kept in zip(numbers, keep or (False,) * len(numbers), strict=True)
    )
