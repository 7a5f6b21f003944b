"""Experiments in which SAC acts in environments of the host."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError
from continual_learning.schema.fields import field
from continual_learning.schema.names import Activation, Goal, Goals
from continual_learning.studies.sac_spec import SACSpec

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class HostSpec(SACSpec):
    """SAC on tasks of MetaWorld or Gymnasium, one after the other."""

    kind: ClassVar[str] = "host"

    suite: Literal["metaworld", "gymnasium"] = field("metaworld", help="where the tasks come from")
    sequence: tuple[str, ...] = field(
        MT10,
        alias="task",
        help="the tasks in their order, over and over: MetaWorld's, with or without -v3, or ids of "
        "Gymnasium",
    )
    goal: Goal = field(
        "shown", help="whether MetaWorld's observations show the goal, or zeros in its place"
    )
    goals: Goals = field(
        "fresh",
        help="MetaWorld: every episode draws one of 50 goals, or every environment keeps one for "
        "ever, in evaluations too, as in the published code",
    )
    one_hot: bool = field(False, help="append the task's number to MetaWorld's observations")
    episode_length: int | None = field(
        None, positive=True, help="steps of an episode of MetaWorld, at most 500; none for 500"
    )
    vector_steps_per_task: int = field(
        100_000, budget=True, positive=True, help="steps of all environments together per task"
    )
    steps_per_row: int = field(
        500, budget=True, positive=True, help="steps of all environments per row of metrics"
    )
    rows_per_chunk: int = field(
        10,
        budget=True,
        positive=True,
        help="rows between two looks at the study; ranks are measured as often",
    )
    hidden: tuple[int, ...] = field(
        (256, 256, 256), positive=True, most=bounds.UNITS, help="units of the hidden layers"
    )
    activation: Activation = field("relu", help="nonlinearity of the hidden layers")
    staleness: int = field(
        1, help="1: environments step while the device learns from the step before; 0: they wait"
    )
    nonfinite: Literal["end"] | None = field(
        None,
        help="what a reward or an observation does that is not finite: end ends the episode, which "
        "the metric invalid_steps counts; without it, it is an error",
    )
    workers: int | None = field(
        None,
        budget=True,
        positive=True,
        help="processes that step environments; none for one per core",
    )

    def _check(self) -> None:
        if not self.sequence:
            raise StudyError("sequence must name at least one task.")
        if len(set(self.sequence)) < len(self.sequence):
            raise StudyError(
                "sequence must name each task once: with more `tasks` than names they come again, "
                f"in the same order; got {', '.join(self.sequence)}."
            )
        if self.staleness not in (0, 1):
            raise StudyError(f"staleness must be 0 or 1, got {self.staleness}.")
        if self.suite == "gymnasium" and (
            self.goal != "shown"
            or self.goals != "fresh"
            or self.one_hot
            or self.episode_length is not None
        ):
            raise StudyError(
                "goal, goals, one_hot and episode_length are MetaWorld's; leave them out."
            )
        if self.episode_length is not None and self.episode_length > 500:
            raise StudyError(f"episode_length must be at most 500, got {self.episode_length}.")
        super()._check()
