"""A robot and its tasks in one file, as a user writes them: an ant that is to stand still."""

import dataclasses

import jax
import jax.numpy as jnp

from continual_learning.envs import STREAMS, OnDevice, Stream, TaskStream, Uniform
from continual_learning.envs.robots import Ant
from continual_learning.physics import CPU_OPTIONS
from continual_learning.schema.fields import field


@dataclasses.dataclass(frozen=True, eq=False)
class StillAnt(Ant):
    """Brax's ant, whose reward is minus the distance that it moved."""

    def _reward(self, before, after, control):
        return -jnp.abs(self._torso(after.body) - self._torso(before.body))[0]


@STREAMS.register
@dataclasses.dataclass(frozen=True, kw_only=True)
class StandingTasks(Stream):
    """The ant in another gravity in each task."""

    kind = "standing"
    place = "device"
    needs = "brax"
    parameters = ("gravity",)
    filmed = True

    heaviest: float = field(2.0, positive=True, help="the largest gravity, as a factor")

    def build(self, shared, tasks):
        """Return the ant, and how its gravity is drawn."""
        stream = TaskStream(StillAnt(), {"gravity": Uniform(0.5, self.heaviest)})
        # Of these steps, XLA for CPUs otherwise makes a program that takes minutes to compile.
        options = CPU_OPTIONS if jax.default_backend() == "cpu" else {}
        return OnDevice(stream, length=15, options=options)
