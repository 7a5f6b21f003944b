"""Brax's Humanoid."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from brax import actuator
from brax.base import Motion, System, Transform

from continual_learning.envs.robots.physics import Body
from continual_learning.envs.robots.robot import Robot, RobotState, Solver

FORWARD_REWARD = 1.25
CONTROL_COST = 0.1
HEALTHY_REWARD = 5.0


class Memory(NamedTuple):
    """The memory of a humanoid of its last step.

    Attributes:
      center: float32 [3], its center of mass.
      control: float32 [act_size], the control of its motors.
    """

    center: jax.Array
    control: jax.Array


@dataclasses.dataclass(frozen=True, eq=False)
class Humanoid(Robot):
    """A two-legged robot that is rewarded for running along x, and falls outside 1 to 2 m.

    The observation holds positions without x and y [22], velocities [23], inertia and mass of the
    links about the center of mass [110], their velocities [66], and the torques [23].
    """

    model = "humanoid.xml"
    noise = 1e-2
    first_speeds = "uniform"
    healthy = (1.0, 2.0)
    usual_solver = Solver("elliptic", 2, 8)

    @property
    def observation_size(self) -> int:
        """The number of positions, velocities, inertias, velocities of the links and torques."""
        links, speeds = self._system.num_links(), self._system.qd_size()
        return self._system.q_size() - 2 + speeds + links * (9 + 1) + links * 6 + speeds

    def _control(self, action: jax.Array) -> jax.Array:
        low, high = self._system.actuator.ctrl_range.T
        return (action + 1) * (high - low) * 0.5 + low

    def _remember(self, system: System, body: Body, control: jax.Array) -> Memory:
        x, _ = self._engine.links(system, body)
        return Memory(_center(system, x)[0], control)

    def _sense(self, system: System, state: RobotState) -> jax.Array:
        body = state.body
        x, xd = self._engine.links(system, body)
        center, inner = _center(system, x)
        inertia = system.link.inertia
        about = Transform(pos=inner.pos - center[None], rot=inner.rot).vmap().do(inertia)
        mass = inertia.mass[:, None]
        inertias = jnp.hstack([about.i.reshape((len(mass), -1)), mass])
        moved: Motion = Transform.create(pos=inner.pos - x.pos).vmap().do(xd)
        velocities = jnp.hstack([mass * moved.vel / jnp.sum(mass), moved.ang])
        torque = actuator.to_tau(system, state.memory.control, body.q, body.qd)
        return jnp.concatenate([body.q[2:], body.qd, inertias.ravel(), velocities.ravel(), torque])

    def _reward(self, before: RobotState, after: RobotState, control: jax.Array) -> jax.Array:
        velocity = (after.memory.center - before.memory.center) / self.dt
        cost = CONTROL_COST * jnp.sum(jnp.square(control))
        return FORWARD_REWARD * velocity[0] + HEALTHY_REWARD - cost


def _center(system: System, x: Transform) -> tuple[jax.Array, Transform]:
    """Return the center of mass [3], and the frames of the links' own centers."""
    inertia = system.link.inertia
    inner = x.vmap().do(inertia.transform)
    weighted = inertia.mass[:, None] * inner.pos
    return jnp.sum(weighted, axis=0) / jnp.sum(inertia.mass), inner
