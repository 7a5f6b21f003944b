"""Brax's robots that move in a plane: half-cheetah, hopper and walker2d."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from brax.base import System

from continual_learning.envs.robots.physics import Body
from continual_learning.envs.robots.robot import Robot, RobotState, reported


@dataclasses.dataclass(frozen=True, eq=False)
class Planar(Robot):
    """A robot whose positions begin with x, height and pitch of its torso.

    The observation holds positions without x, and velocities.
    """

    implicit_damping = True
    healthy_reward: ClassVar[float]
    control_cost: ClassVar[float]

    @property
    def observation_size(self) -> int:
        """The number of positions without x, and of velocities."""
        return self._system.q_size() - 1 + self._system.qd_size()

    def _sense(self, system: System, state: RobotState) -> jax.Array:
        return jnp.concatenate([state.body.q[1:], state.body.qd])

    def _reward(self, before: RobotState, after: RobotState, control: jax.Array) -> jax.Array:
        velocity = (self._torso(after.body) - self._torso(before.body)) / self.dt
        cost = self.control_cost * jnp.sum(jnp.square(control))
        return velocity[0] + self.healthy_reward - cost

    def _torso(self, body: Body) -> jax.Array:
        x, height, *_ = reported(body)
        return jnp.stack([x, jnp.zeros_like(x), height]) + self._rest

    @property
    def _rest(self) -> jax.Array:
        """Return the position of the torso in the model's file, [3]."""
        return jnp.asarray(self.mujoco_model.body_pos[1], jnp.float32)


@dataclasses.dataclass(frozen=True, eq=False)
class HalfCheetah(Planar):
    """A two-legged robot that is rewarded for running along x, and never ends an episode."""

    model = "half_cheetah.xml"
    usual_friction = 0.4
    noise = 0.1
    first_speeds = "normal"
    healthy_reward = 0.0
    control_cost = 0.1

    def _fallen(self, body: Body) -> jax.Array:
        return jnp.zeros((), bool)


@dataclasses.dataclass(frozen=True, eq=False)
class _Upright(Planar):
    """A robot that falls by its height or its pitch, and observes the height of its torso."""

    frames = 4
    noise = 5e-3
    first_speeds = "uniform"
    healthy_reward = 1.0
    control_cost = 1e-3
    healthy_pitch: ClassVar[float]

    def _sense(self, system: System, state: RobotState) -> jax.Array:
        position = state.body.q.at[1].set(self._torso(state.body)[2])
        return jnp.concatenate([position[1:], jnp.clip(state.body.qd, -10, 10)])

    def _fallen(self, body: Body) -> jax.Array:
        low, high = self.healthy
        height = self._torso(body)[2]
        return ~((low < height) & (height < high) & (jnp.abs(body.q[2]) < self.healthy_pitch))


@dataclasses.dataclass(frozen=True, eq=False)
class Hopper(_Upright):
    """A one-legged robot that is rewarded for hopping along x.

    It falls below 0.7 m, beyond a pitch of 0.2 rad, and where a position or a velocity is beyond
    100.
    """

    model = "hopper.xml"
    usual_friction = 2.0
    healthy = (0.7, float("inf"))
    healthy_pitch = 0.2

    def _fallen(self, body: Body) -> jax.Array:
        far = jnp.abs(jnp.concatenate([body.q[2:], body.qd])) >= 100.0
        return super()._fallen(body) | jnp.any(far)


@dataclasses.dataclass(frozen=True, eq=False)
class Walker2d(_Upright):
    """A two-legged robot that is rewarded for walking along x.

    It falls outside 0.8 to 2 m, and beyond a pitch of 1 rad.
    """

    model = "walker2d.xml"
    usual_friction = 0.9
    healthy = (0.8, 2.0)
    healthy_pitch = 1.0
