"""The paper's robots on changing ground: SlipperyAnt, SlipperyHumanoid, and the delayed Ant.

These need the extra `brax`.
"""

from __future__ import annotations

from typing import Literal

from continual_learning.envs.delayed import Delayed
from continual_learning.envs.robots import Ant, Humanoid
from continual_learning.envs.robots.physics import Backend
from continual_learning.envs.streams import Integers, LogUniform, TaskStream

FRICTION = LogUniform(0.02, 2.0)
LONGEST_DELAY = 8

Friction = Literal["applied", "as_released"]


class SlipperyAnt(TaskStream):
    """Brax's Ant; the friction of all contacts is log-uniform in [0.02, 2], drawn per task."""

    def __init__(self, physics: Backend = "generalized", friction: Friction = "applied"):
        super().__init__(Ant(physics, friction), {"friction": FRICTION})


class SlipperyHumanoid(TaskStream):
    """Brax's Humanoid; the friction of the ground is log-uniform in [0.02, 2], drawn per task.

    MuJoCo takes the larger friction of the two bodies that touch, so the feet, which are all that
    can touch the ground, get the value as well: otherwise nothing below 1 would act.
    """

    def __init__(self, physics: Backend = "mjx", friction: Friction = "applied"):
        super().__init__(Humanoid(physics, friction), {"friction": FRICTION})


class DelayedAnt(TaskStream):
    """Brax's Ant; its actions act k steps later, k uniform in 0 … 8, drawn per task.

    The paper names a time-delayed Ant and gives no numbers: these are ours.
    """

    def __init__(self, physics: Backend = "generalized"):
        env = Delayed(Ant(physics), action_delay=LONGEST_DELAY)
        super().__init__(env, {"action_delay": Integers(0, LONGEST_DELAY)})
