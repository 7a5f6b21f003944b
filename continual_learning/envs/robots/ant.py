"""Brax's Ant."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from brax.base import System

from continual_learning.envs.robots.robot import Robot, RobotState

CONTROL_COST = 0.5
HEALTHY_REWARD = 1.0


@dataclasses.dataclass(frozen=True, eq=False)
class Ant(Robot):
    """A four-legged robot that is rewarded for running along x, and falls outside 0.2 to 1 m.

    The observation holds positions without x and y [13], and velocities [14]. The control cost is
    that of the action before the motors clip it.
    """

    model = "ant.xml"
    noise = 0.1
    first_speeds = "normal"
    healthy = (0.2, 1.0)

    @property
    def observation_size(self) -> int:
        """The number of positions without x and y, and of velocities."""
        return self._system.q_size() - 2 + self._system.qd_size()

    def _sense(self, system: System, state: RobotState) -> jax.Array:
        return jnp.concatenate([state.body.q[2:], state.body.qd])

    def _reward(self, before: RobotState, after: RobotState, control: jax.Array) -> jax.Array:
        velocity = (self._torso(after.body) - self._torso(before.body)) / self.dt
        cost = CONTROL_COST * jnp.sum(jnp.square(control))
        return velocity[0] + HEALTHY_REWARD - cost
