"""The paper's robots on changing ground: SlipperyAnt, SlipperyHumanoid, and the delayed Ant.

These need the extra `brax`.
"""

from __future__ import annotations

from typing import Literal

from continual_learning.envs.delayed import Delayed
from continual_learning.envs.robots import Ant, Humanoid
from continual_learning.envs.robots.physics import Backend
from continual_learning.envs.streams import LogUniform, TaskStream, parse_changes

FRICTION = LogUniform(0.02, 2.0)
LONGEST_DELAY = 8
DELAYS = "observation_delay = interval(0, 8); action_delay = interval(0, 8)"

Friction = Literal["applied", "as_released"]


class SlipperyAnt(TaskStream):
    """Brax's Ant; the friction of all contacts is log-uniform in [0.02, 2], drawn per task."""

    def __init__(self, physics: Backend = "unrolled", friction: Friction = "applied"):
        super().__init__(Ant(physics, friction), {"friction": FRICTION})


class SlipperyHumanoid(TaskStream):
    """Brax's Humanoid; the friction of the ground is log-uniform in [0.02, 2], drawn per task.

    MuJoCo takes the larger friction of the two bodies that touch, so the feet, which are all that
    can touch the ground, get the value as well: otherwise nothing below 1 would act.
    """

    def __init__(self, physics: Backend = "unrolled", friction: Friction = "applied"):
        super().__init__(Humanoid(physics, friction), {"friction": FRICTION})


class DelayedAnt(TaskStream):
    """Brax's Ant; a task draws an interval within 0 … 8 for observations and one for actions.

    Every step draws its delays from them, and both are seen, as in the paper's authors' code.
    """

    def __init__(self, physics: Backend = "unrolled"):
        env = Delayed(Ant(physics), LONGEST_DELAY, LONGEST_DELAY, "one_hot", interval=True)
        super().__init__(env, parse_changes(DELAYS))
