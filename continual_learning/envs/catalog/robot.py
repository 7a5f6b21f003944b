"""Robots whose world changes from task to task."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from continual_learning.envs.catalog.stream import OnDevice, Place, Stream
from continual_learning.envs.draws import parse_changes, span
from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError, unknown
from continual_learning.schema.fields import field
from continual_learning.schema.names import (
    Engine,
    Friction,
    Precision,
    Restart,
    RobotName,
    ToldDelays,
)

PARAMETERS = (
    "friction",
    "gravity",
    "strength",
    "reward_scale",
    "action_delay",
    "action_delay_high",
    "observation_delay",
    "observation_delay_high",
)
"""The parameters of a robot that a stream can change."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RobotTasks(Stream):
    """A robot whose world changes from task to task."""

    kind: ClassVar[str] = "robot"
    place: ClassVar[Place] = "device"
    needs: ClassVar[str | None] = "brax"
    parameters: ClassVar[tuple[str, ...]] = PARAMETERS
    filmed: ClassVar[bool] = True

    robot: RobotName = field("ant", help="the robot")
    # A table that names no engine means the former default. Our experiments name their engine.
    physics: Engine = field("generalized", help="the physics engine")
    friction: Friction = field(
        "applied", help="whether friction acts or stays 1 as in the published code"
    )
    changes: str = field(
        "friction = log_uniform(0.02, 2.0)",
        help="the parameters that a task draws, as PARAMETER = DRAW; …: "
        f"{', '.join(PARAMETERS)} from log_uniform(a, b), uniform(a, b), integers(a, b), "
        "values(a, b, …) or a number; delays also from interval(a, b), from which every step draws",
    )
    precision: Precision = field(
        "float32",
        help="precision of matrix products in the physics; default means the precision of the "
        "device, which is TF32 on NVIDIA's GPUs",
    )
    longest_action_delay: int = field(
        0, help="largest number of steps by which actions can be delayed"
    )
    longest_observation_delay: int = field(
        0, help="largest number of steps by which observations can be delayed"
    )
    told_delays: ToldDelays = field(
        "blind",
        help="what follows a delayed observation: the last actions and both delays (one_hot or "
        "scalar), the last actions (none), or nothing (blind)",
    )
    episode_length: int = field(
        1000, positive=True, help="number of steps after which an episode is cut off"
    )
    restart: Restart = field(
        "first",
        help="first: an episode begins in the first state of its environment; fresh: in a new one",
    )

    def build(self, shared: Any, tasks: int) -> OnDevice:
        """Return the tasks of the robot with its delays, ready to be trained on."""
        import jax

        from continual_learning.envs.robots import ROBOTS
        from continual_learning.envs.robots.delayed import Delayed
        from continual_learning.envs.streams import TaskStream
        from continual_learning.physics import CPU_OPTIONS

        robot: Any = ROBOTS[self.robot]
        env = robot(self.physics, self.friction, precision=self.precision)
        changes = parse_changes(self.changes)
        longest = self.longest_action_delay, self.longest_observation_delay
        if any(longest) or self.told_delays != "blind":
            interval = any(name.endswith("_delay_high") for name in changes)
            env = Delayed(env, *longest, self.told_delays, interval)
        on_cpu = self.physics == "unrolled" and jax.default_backend() == "cpu"
        options = CPU_OPTIONS if on_cpu else {}
        return OnDevice(TaskStream(env, changes), self.episode_length, self.restart, options)

    def _check(self) -> None:
        for name in ("longest_action_delay", "longest_observation_delay"):
            if getattr(self, name) < 0:
                raise StudyError(f"{name} must not be negative, got {getattr(self, name)}.")
        try:
            changes = parse_changes(self.changes)
        except ValueError as error:
            raise StudyError(f"changes: {error}") from None
        for name, draw in changes.items():
            if name not in PARAMETERS:
                raise unknown("parameter in changes", name, PARAMETERS)
            least, most = -bounds.FLOATS, bounds.FLOATS
            if name in ("friction", "strength"):
                least = 0.0
            delay = name.removesuffix("_high")
            if delay.endswith("_delay"):
                least, most = 0, getattr(self, f"longest_{delay}")
                if most == 0:
                    raise StudyError(f"changes: {delay} needs longest_{delay} above 0.")
            low, high = span(draw)
            if not least <= low <= high <= most:
                valid = f"from {least:g} to {most:g}" if most < bounds.FLOATS else "at least 0"
                raise StudyError(
                    f"changes: {name} must be {valid if least == 0 else 'finite in float32'}, got "
                    f"{low:g} to {high:g}."
                )
