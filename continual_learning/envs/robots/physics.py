"""The physics engines, each with the smallest state that its next step reads.

Brax's own states hold everything that a step computed (contacts, Jacobians, inertias). A scan over
thousands of environments would write and read all of it in every step, and a checkpoint would hold
it. Here a state holds positions, velocities and the start of the solver, and the rest is computed
again where it is used.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from brax import actuator, kinematics
from brax.base import Motion, System, Transform
from brax.generalized import constraint, dynamics, integrator, mass
from brax.generalized import pipeline as generalized_pipeline
from brax.generalized.base import State as GeneralizedState
from mujoco import mjx

from continual_learning.envs.robots import constraints
from continual_learning.physics import Engine, Parameters, State, of_one, unroll


class Body(NamedTuple):
    """The state of a robot between two steps.

    Attributes:
      q: float32 [q_size], positions.
      qd: float32 [qd_size], velocities.
      warm: the start of the solver: the upper triangle of the last inverse mass matrix, row by row
        (generalized), or the last acceleration [qd_size] (MJX, unrolled).
      seen: (q, qd) at which the poses of the links are read. MJX reads the poses before it
        integrates, so they lag by a substep; () where they are those of `q` and `qd`.
    """

    q: jax.Array
    qd: jax.Array
    warm: jax.Array
    seen: Any


class Physics(Protocol):
    """An engine.

    `world` is the robot and its ground in a task. For Brax's pipeline and MJX it is the `System`,
    for the unrolled engine the parameters that differ from its model.
    """

    def start(self, world: Any, q: jax.Array, qd: jax.Array, /) -> Body:
        """Return a body at these positions and velocities, with an initial start of the solver."""
        ...

    def step(self, world: Any, body: Body, control: jax.Array, /) -> Body:
        """Make `frames` substeps under one control [act_size]."""
        ...

    def links(self, sys: System, body: Body) -> tuple[Transform, Motion]:
        """Return poses and velocities of the links, as Brax reports them."""
        ...


@dataclasses.dataclass(frozen=True)
class Generalized:
    """Brax's generalized pipeline.

    Attributes:
      frames: the number of substeps in a step.
    """

    frames: int

    def start(self, sys: System, q: jax.Array, qd: jax.Array) -> Body:
        """Return a body with the exact inverse of its mass matrix."""
        state: Any = generalized_pipeline.init(sys, q, qd)
        return Body(q, qd, _triangle(state.mass_mx_inv), ())

    def step(self, sys: System, body: Body, control: jax.Array) -> Body:
        """Make Brax's step, but compute what depends on positions first instead of last."""

        def substep(body: Body, _: None) -> tuple[Body, None]:
            x, xd = kinematics.forward(sys, body.q, body.qd)
            state: Any = GeneralizedState.init(body.q, body.qd, x, xd)
            inverse = _symmetric(body.warm, sys.qd_size())
            state = dynamics.transform_com(sys, state.replace(mass_mx_inv=inverse))
            state = mass.matrix_inv(sys, state, sys.matrix_inv_iterations)
            state = constraint.jacobian(sys, state)
            tau = actuator.to_tau(sys, control, body.q, body.qd)
            state = state.replace(qf_smooth=dynamics.forward(sys, state, tau))
            state = state.replace(qf_constraint=constraints.force(sys, state))
            state = integrator.integrate(sys, state)
            return Body(state.q, state.qd, _triangle(state.mass_mx_inv), ()), None

        return jax.lax.scan(substep, body, None, self.frames)[0]

    def links(self, sys: System, body: Body) -> tuple[Transform, Motion]:
        """Return poses and velocities of the links at the positions of the body."""
        return kinematics.forward(sys, body.q, body.qd)


@dataclasses.dataclass(frozen=True)
class MJX:
    """MuJoCo's own engine in JAX.

    Attributes:
      frames: the number of substeps in a step.
    """

    frames: int

    def start(self, sys: System, q: jax.Array, qd: jax.Array) -> Body:
        """Return a body with unit quaternions, whose solver starts from its first solution."""
        data = mjx.forward(sys, mjx.make_data(sys).replace(qpos=q, qvel=qd))
        return Body(data.qpos, data.qvel, data.qacc_warmstart, (data.qpos, data.qvel))

    def step(self, sys: System, body: Body, control: jax.Array) -> Body:
        """Make MuJoCo's step `frames` times."""

        def substep(body: Body, _: None) -> tuple[Body, None]:
            data = mjx.make_data(sys).replace(
                qpos=body.q, qvel=body.qd, qacc_warmstart=body.warm, ctrl=control
            )
            data = mjx.step(sys, data)
            return Body(data.qpos, data.qvel, data.qacc_warmstart, (body.q, body.qd)), None

        return jax.lax.scan(substep, body, None, self.frames)[0]

    def links(self, sys: System, body: Body) -> tuple[Transform, Motion]:
        """Return poses and velocities of the links at the positions of a substep ago."""
        q, qd = body.seen
        data = mjx.make_data(sys).replace(qpos=q, qvel=qd)
        data = mjx.com_vel(sys, mjx.com_pos(sys, mjx.kinematics(sys, data)))
        x = Transform(pos=data.xpos[1:], rot=data.xquat[1:])
        velocity = Motion(vel=data.cvel[1:, 3:], ang=data.cvel[1:, :3])
        offset = data.xpos[1:, :] - data.subtree_com[jnp.asarray(sys.body_rootid[1:])]
        return x, Transform.create(pos=offset).vmap().do(velocity)


class Unrolled:
    """MuJoCo's step as straight-line arithmetic.

    It computes all environments at once, however they are mapped.

    Args:
      model: MuJoCo's model, with the settings of the solver.
      frames: the number of substeps in a step.
    """

    def __init__(self, model: Any, frames: int):
        self.engine: Engine = unroll(model, frames)
        self._step = of_one(self.engine.step)
        self._links = of_one(self.engine.links)

    def start(self, world: Parameters, q: jax.Array, qd: jax.Array) -> Body:
        """Return a body with unit quaternions, whose solver starts from acceleration 0."""
        for joint in self.engine.model.joints:
            if joint.kind == "free":
                turn = slice(joint.position + 3, joint.position + 7)
                q = q.at[turn].divide(jnp.linalg.norm(q[turn]))
        return Body(q, qd, jnp.zeros_like(qd), ())

    def step(self, world: Parameters, body: Body, control: jax.Array) -> Body:
        """Make MuJoCo's step `frames` times."""
        state = self._step(State(body.q, body.qd, body.warm), control, dict(world))
        return Body(state.qpos, state.qvel, state.warm, ())

    def links(self, sys: System, body: Body) -> tuple[Transform, Motion]:
        """Return poses and velocities of the links at the positions of the body."""
        found = self._links(body.q, body.qd)
        where = Transform(pos=found.position[1:], rot=found.rotation[1:])
        return where, Motion(vel=found.linear[1:], ang=found.angular[1:])


def _triangle(matrix: jax.Array) -> jax.Array:
    """Return the upper triangle of a symmetric matrix [n, n], row by row: [n (n + 1) / 2]."""
    return matrix[jnp.triu_indices(len(matrix))]


def _symmetric(triangle: jax.Array, size: int) -> jax.Array:
    """Return the matrix [size, size] that has this upper triangle."""
    upper = jnp.zeros((size, size), triangle.dtype).at[jnp.triu_indices(size)].set(triangle)
    return upper + jnp.triu(upper, 1).T
