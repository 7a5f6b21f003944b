"""Every quantity of a step against MuJoCo's C, on random states.

The engine runs operation by operation: compiling it is what would cost here.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.physics.reference import (
    CONVERGED,
    ROBOTS,
    Options,
    Sample,
    engine_of,
    mujocos,
    ours,
    sample,
)

slow = pytest.mark.slow

FEW, MANY = 40, 1000

QUANTITIES = {
    "position": 1e-12,
    "center": 1e-12,
    "turn": 1e-12,
    "angular": 1e-12,
    "linear": 1e-12,
    "mass_matrix": 1e-12,
    "bias": 1e-12,
    "passive": 1e-12,
    "actuation": 1e-12,
    "free": 1e-9,
    "limit": 1e-9,
    "contact": 1e-9,
    "wrench": 1e-9,
    "acceleration": 1e-9,
    "constraint": 1e-9,
    "qpos": 1e-9,
    "qvel": 1e-9,
}
"""How far from MuJoCo's, relative to the largest entry of a state."""


@cache
def compared(robot, options, count):
    """{quantity: largest relative error of every state}, our numbers and MuJoCo's."""
    engine, model = engine_of(robot, options)
    states = sample(model, count)
    theirs = mujocos(model, states)
    with jax.enable_x64(True):
        found = ours(engine, model.ngeom, states)
    wrong = {name: errors(found[name], theirs[name]) for name in QUANTITIES}
    return wrong, found, theirs


def errors(found, wanted):
    """By state, the largest error relative to the largest entry."""
    axes = tuple(range(wanted.ndim - 1))
    size = np.maximum(np.abs(wanted).max(axes), 1e-3)
    return np.abs(found - wanted).max(axes) / size


@pytest.mark.parametrize("robot", ROBOTS)
@pytest.mark.parametrize("quantity", QUANTITIES)
def test_equal_to_mujoco(robot, quantity):
    found, _, _ = compared(robot, ROBOTS[robot], FEW)
    assert found[quantity].max() < QUANTITIES[quantity]


SOLVED = ("acceleration", "constraint", "qpos", "qvel")


def is_one_of_mujocos(robot, options, number, acceleration):
    """Whether MuJoCo comes to an acceleration from a state that differs in its last digits.

    A line search decides between points. Where two cost the same but for rounding, MuJoCo's C
    takes the one or the other, and so do we.
    """
    _, model = engine_of(robot, options)
    rng = np.random.default_rng(0)
    states = sample(model, MANY)
    near = [np.repeat(x[..., number : number + 1], 60, -1) for x in states]
    qpos, qvel, warm, control, friction = near
    for x in (qpos, qvel, warm):
        x *= 1 + 1e-12 * rng.normal(size=x.shape)
    theirs = mujocos(model, Sample(qpos, qvel, warm, control, friction))["acceleration"]
    return errors(np.repeat(acceleration[:, None], 60, -1), theirs).min() < 1e-6


GRID = [
    Options(cone, *iterations, implicit=implicit)
    for cone in ("elliptic", "pyramidal")
    for iterations, implicit in (((2, 4), False), ((3, 9), True), (CONVERGED, True))
]


@slow
@pytest.mark.parametrize("robot", ROBOTS)
@pytest.mark.parametrize("options", GRID, ids=str)
def test_equal_to_mujoco_in_many_states(robot, options):
    """The states are such that every kind of constraint acts in many of them."""
    wrong, found, theirs = compared(robot, options, MANY)
    for quantity, tolerance in QUANTITIES.items():
        solved = quantity in SOLVED
        assert wrong[quantity].max() < tolerance or solved, quantity
        assert np.mean(wrong[quantity] < tolerance) > 0.98, quantity
    assert (theirs["contact"][:, 0].sum(0) > 1).mean() > 0.05
    assert (np.abs(theirs["limit"][:, 0]).sum(0) > 0).mean() > 0.25
    far = np.flatnonzero(wrong["acceleration"] > 1e-6)
    if (options.iterations, options.line_search) == CONVERGED:
        assert not len(far)  # there is only one minimum, however a search comes to it
    for number in far:
        assert is_one_of_mujocos(robot, options, number, found["acceleration"][:, number])


@pytest.mark.parametrize("robot", ROBOTS)
def test_the_states_touch_the_ground_and_their_limits(robot):
    """Or else the tests above would show little."""
    _, _, theirs = compared(robot, ROBOTS[robot], FEW)
    touching = theirs["contact"][:, 0].sum(0)
    assert (touching > 0).mean() > 0.1 and (touching > 1).any() and (touching == 0).any()
    assert theirs["contact"][:, 1].min() < -0.05  # deep
    assert (np.abs(theirs["limit"][:, 0]).sum(0) > 0).mean() > 0.3


IN_FLOAT32 = [Options("elliptic", 2, 8), Options("pyramidal", 20, 20)]
"""That of our robots, and a pyramid with iterations enough: a search of few compares costs, whose
differences float32 loses, and settles for another step in some states (docs/physics.md)."""


def near_in_float32(robot, options, count):
    engine, model = engine_of(robot, options)
    states = sample(model, count)
    theirs = mujocos(model, states)
    found = ours(engine, model.ngeom, states, jnp.float32)
    for quantity in QUANTITIES:
        assert found[quantity].dtype in (np.float32, np.float64)
        wrong = errors(found[quantity], theirs[quantity])
        assert np.median(wrong) < 2e-5, quantity
        assert np.quantile(wrong, 0.9) < 2e-3, quantity
        assert wrong.max() < 1e-3 or quantity in SOLVED, quantity


@pytest.mark.parametrize("options", IN_FLOAT32, ids=str)
@pytest.mark.parametrize("robot", ["ant", "everything"])
def test_float32_is_near(robot, options):
    """To the accuracy of its inputs: stiff constraints amplify them."""
    near_in_float32(robot, options, FEW)


@slow
@pytest.mark.parametrize("options", IN_FLOAT32, ids=str)
@pytest.mark.parametrize("robot", ROBOTS)
def test_float32_is_near_in_many_states(robot, options):
    near_in_float32(robot, options, MANY)
