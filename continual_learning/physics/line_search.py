"""MuJoCo's line search (CGsearch in engine_solver.c), for many environments at once.

It follows Newton steps until the slope changes its sign, and then shrinks a bracket from both ends
and its middle. In MuJoCo every robot runs its own loop. Here all environments evaluate their cost
together, every one at the point that its own search needs next, and finished searches wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from continual_learning.physics.loops import repeat
from continual_learning.physics.penalties import Slope
from continual_learning.physics.scalars import ZERO, Bool, Scalar, maximum, where

FIRST, WALK, NEAR, MIDDLE, FAR, DONE = range(6)
"""The stages of a search, by the point that it evaluates next: the first Newton step, a further
one, the Newton step from the near end of its bracket, the middle, the Newton step from the far end,
none.
"""

MIN_CURVATURE = 1e-15

SHORT = 4
"""A search of at most this many evaluations ends before it could shrink a bracket."""


class Point(NamedTuple):
    """A point on the line, with the cost and its derivatives."""

    at: Scalar
    cost: Scalar
    first: Scalar
    second: Scalar

    @property
    def newton(self) -> Scalar:
        """The minimum of the parabola through this point."""
        return self.at - self.first / self.second


class Search(NamedTuple):
    """The state of the searches.

    Attributes:
      stage: the stage, int32 [envs].
      count: the number of evaluations so far, int32 [envs].
      next: the distance to evaluate next.
      found: the result, once the search is done.
      near: the current point, later one end of the bracket.
      far: the previous point, later the other end.
      near_next, far_next: the Newton steps from the ends.
      far_moved: whether the Newton step from the far end is still to be evaluated, bool [envs].
    """

    stage: Any
    count: Any
    next: Scalar
    found: Scalar
    near: Point
    far: Point
    near_next: Point
    far_next: Point
    far_moved: Any


def search(
    evaluate: Callable[[Scalar], Slope],
    start: Slope,
    tolerance: Scalar,
    most: int,
    idle: jax.Array,
) -> Scalar:
    """Return the distance to go, [envs]; 0 if no other is better.

    Args:
      evaluate: returns the cost and its derivatives at a distance.
      start: the cost and its derivatives at 0, which count as the first evaluation.
      tolerance: the slope below which a point is good enough.
      most: the largest number of evaluations.
      idle: bool [envs], the environments that need no search.
    """
    zero = jnp.zeros_like(start.cost.value)
    origin = _point(Scalar(zero), start)
    stage = jnp.where(idle, DONE, FIRST).astype(jnp.int32)
    if most < 2:  # MuJoCo always takes the first step.
        most = 2
    begun = Search(
        stage,
        jnp.ones_like(stage),
        origin.newton,
        Scalar(zero),
        *(origin, origin, origin, origin),
        jnp.zeros_like(idle),
    )

    def step(now: Search) -> Search:
        point = _point(now.next, evaluate(now.next))
        after = now._replace(count=now.count + (now.stage != DONE))
        after = _walk(now.stage, after, point, origin, tolerance, most)
        return _shrink(now.stage, after, point, origin, tolerance, most) if most > SHORT else after

    return repeat(most - 1, step, begun, lambda now: now.stage != DONE).found


def _walk(
    stage: Any, now: Search, point: Point, origin: Point, tolerance: Scalar, most: int
) -> Search:
    """Follow Newton steps until the slope changes its sign."""
    first, walk = stage == FIRST, stage == WALK
    better = ~(origin.cost < point.cost)
    near = _either(first & better, point, now.near)  # `now.near` is the origin at first.
    far = _either(walk, now.near, now.far)
    near = _either(walk, point, near)
    crossed = walk & ((near.first < 0.0) != (far.first < 0.0))
    # Then the Newton step from a new bracket would be the last evaluation, so it is not needed.
    last = crossed & (now.count + 1 >= most)
    ended = (first | walk) & (_small(near, tolerance) | (now.count >= most))
    found = where(last, _best(near, far, origin), now.found)
    found = where(ended, near.at, found)
    following = jnp.where(first | walk, jnp.where(crossed, NEAR, WALK), now.stage)
    return now._replace(
        stage=jnp.where(ended | last, DONE, following).astype(jnp.int32),
        next=where(first | walk, near.newton, now.next),
        found=found,
        near=near,
        far=far,
        far_next=_either(crossed, near, now.far_next),
    )


def _shrink(
    stage: Any, now: Search, point: Point, origin: Point, tolerance: Scalar, most: int
) -> Search:
    """Shrink the bracket from both ends and its middle."""
    is_near, middle, is_far = (stage == which for which in (NEAR, MIDDLE, FAR))
    near_next = _either(is_near, point, now.near_next)
    far_next = _either(is_far, point, now.far_next)
    candidates = near_next, far_next, point

    near, near_moved = _narrowed(now.near, candidates)
    far, far_moved = _narrowed(now.far, candidates)
    stuck = ~near_moved & ~far_moved
    spent = now.count + near_moved + far_moved >= most
    good, lowest = _lowest(candidates, tolerance)
    found = where(spent, _best(near, far, origin), point.at)
    found = where(good, lowest, where(stuck, point.at, found))
    ended = middle & (good | stuck | spent)

    near, far = _either(middle, near, now.near), _either(middle, far, now.far)
    waiting = jnp.where(middle, far_moved, now.far_moved & ~is_far)
    to_near = middle & near_moved
    to_far = (middle & ~near_moved) | (is_near & waiting)
    to_middle = (is_near & ~waiting) | is_far
    following = jnp.where(to_near, NEAR, now.stage)
    following = jnp.where(to_far, FAR, following)
    following = jnp.where(to_middle, MIDDLE, following)
    at = where(to_near, near.newton, now.next)
    at = where(to_far, far.newton, at)
    at = where(to_middle, (near.at + far.at) * 0.5, at)
    return Search(
        jnp.where(ended, DONE, following).astype(jnp.int32),
        now.count,
        at,
        where(ended, found, now.found),
        *(near, far, near_next, far_next),
        waiting,
    )


def _narrowed(end: Point, candidates: tuple[Point, ...]) -> tuple[Point, Any]:
    """Return an end of a bracket moved to less steep points of its sign, and whether it moved."""
    moved = jnp.zeros_like(end.first.value, bool)
    for point in candidates:
        below = (end.first < 0.0) & (point.first < 0.0) & (end.first < point.first)
        above = (end.first > 0.0) & (point.first > 0.0) & (end.first > point.first)
        end = _either(below | above, point, end)
        moved = moved | below | above
    return end, moved


def _lowest(candidates: tuple[Point, ...], tolerance: Scalar) -> tuple[Any, Scalar]:
    """Return whether any point is good enough, and the distance of the cheapest of those."""
    best, good = candidates[0], _small(candidates[0], tolerance)
    for point in candidates[1:]:
        small = _small(point, tolerance)
        best = _either(small & (~good | (point.cost < best.cost)), point, best)
        good = good | small
    return good, best.at


def _best(near: Point, far: Point, origin: Point) -> Scalar:
    """Return the cheaper end of a bracket, or 0 if neither is cheaper than the start."""
    use_near = (near.cost <= far.cost) & (near.cost < origin.cost)
    use_far = (far.cost <= near.cost) & (far.cost < origin.cost)
    return where(use_near, near.at, where(use_far, far.at, ZERO))


def _small(point: Point, tolerance: Scalar) -> Bool:
    return maximum(point.first, -point.first) < tolerance


def _either(condition: Bool, one: Point, other: Point) -> Point:
    return Point(*(where(condition, a, b) for a, b in zip(one, other, strict=True)))


def _point(at: Scalar, slope: Slope) -> Point:
    second = where(slope.second <= 0.0, MIN_CURVATURE, slope.second)
    return Point(at, slope.cost, slope.first, second)
