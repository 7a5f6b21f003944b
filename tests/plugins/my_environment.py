"""A stream of tasks in one file, as a user writes it: a room to be kept at 20 degrees."""

import dataclasses

import jax
import jax.numpy as jnp

from continual_learning.envs import STREAMS, OnDevice, Stream, TaskStream, Transition, Uniform
from continual_learning.schema.fields import field


class Room:
    """The action heats or cools; in each task it is another temperature outside."""

    observation_size = 1
    action_size = 1
    parameters = {"outside": 10.0}  # noqa: RUF012

    def reset(self, key, task):
        """Return a first temperature [1]."""
        return jax.random.uniform(key, (1,), minval=15.0, maxval=25.0)

    def observe(self, state, task):
        """Return how much too warm it is, [1]."""
        return state - 20.0

    def step(self, key, state, action, task):
        """Return the next temperature, and how far it is from 20 degrees."""
        state = state + jnp.clip(action, -1.0, 1.0) + 0.02 * (task["outside"] - state)
        reward = -jnp.abs(state - 20.0)[0]
        return state, Transition(self.observe(state, task), reward, jnp.asarray(False), {})


@STREAMS.register
@dataclasses.dataclass(frozen=True, kw_only=True)
class RoomTasks(Stream):
    """A room, in another climate in each task."""

    kind = "room"
    place = "device"
    parameters = ("outside",)

    coldest: float = field(0.0, help="the coldest that it may be outside")

    def build(self, shared, tasks):
        """Return the room, and how its climate is drawn."""
        stream = TaskStream(Room(), {"outside": Uniform(self.coldest, 30.0)})
        return OnDevice(stream, length=20, restart="fresh")
