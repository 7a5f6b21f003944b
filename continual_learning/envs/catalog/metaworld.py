"""Tasks of MetaWorld, one after the other."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from continual_learning.envs.catalog.host import HostTasks, check_sequence
from continual_learning.envs.catalog.stream import OnHost
from continual_learning.schema.errors import StudyError, unknown
from continual_learning.schema.fields import field
from continual_learning.schema.names import Goal, Goals

MT10 = (
    "reach",
    "push",
    "pick-place",
    "door-open",
    "drawer-open",
    "drawer-close",
    "button-press-topdown",
    "peg-insert-side",
    "window-open",
    "window-close",
)
"""The tasks of MetaWorld's MT10."""

LONGEST = 500
"""The largest number of steps of an episode."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MetaWorldTasks(HostTasks):
    """MetaWorld's tasks, one after the other."""

    kind: ClassVar[str] = "metaworld"
    needs: ClassVar[str | None] = "metaworld"

    sequence: tuple[str, ...] = field(
        MT10,
        alias="task",
        help="the tasks in their order, with or without -v3; the order repeats",
    )
    goal: Goal = field("shown", help="whether observations show the goal or zeros in its place")
    goals: Goals = field(
        "fresh",
        help="fresh: every episode draws one of 50 goals; fixed: every environment always has the "
        "same goal, in evaluations too, as in the published code",
    )
    one_hot: bool = field(False, help="append the task's number to the observations")
    episode_length: int | None = field(
        None, positive=True, help=f"steps of an episode, at most {LONGEST}; none means {LONGEST}"
    )

    def task_names(self, tasks: int) -> list[str]:
        """Return the names of the tasks, without their version."""
        names = self._names
        return [names[i % len(names)] for i in range(tasks)]

    def load(self) -> None:
        """Raise an error if a package is missing or MetaWorld does not know a task."""
        super().load()
        from continual_learning.envs.host.metaworld import task_names

        for name in self._names:
            if name not in task_names():
                raise unknown("task of MetaWorld", name, task_names())

    def build(self, shared: Any, tasks: int) -> OnHost:
        """Return the tasks, ready to be trained on."""
        from continual_learning.envs.host.metaworld import MetaWorld

        length = self.episode_length or LONGEST
        return self._on_host(MetaWorld(self._names, self.goal, self.one_hot, length, self.goals))

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(name.removesuffix("-v3") for name in self.sequence)

    def _check(self) -> None:
        check_sequence(self.sequence)
        if self.episode_length is not None and self.episode_length > LONGEST:
            raise StudyError(
                f"episode_length must be at most {LONGEST}, got {self.episode_length}."
            )
