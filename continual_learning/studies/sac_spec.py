"""What all experiments with SAC have."""

from __future__ import annotations

import dataclasses

from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError
from continual_learning.schema.fields import field
from continual_learning.schema.names import Init
from continual_learning.studies.base import ExperimentSpec


@dataclasses.dataclass(frozen=True, kw_only=True)
class SACSpec(ExperimentSpec):
    """SAC on a sequence of tasks."""

    environments: int = field(
        10, budget=True, positive=True, most=bounds.UNITS, help="environments of a seed"
    )
    vector_steps_per_task: int = field(
        125_000, budget=True, positive=True, help="steps of all environments together per task"
    )
    steps_per_row: int = field(
        1000, budget=True, positive=True, help="steps of all environments per row of metrics"
    )
    rows_per_chunk: int = field(
        5,
        budget=True,
        positive=True,
        help="rows between two looks of the host; ranks are measured as often",
    )
    capacity: int = field(1_000_000, budget=True, positive=True, help="transitions in the replay")
    batch: int = field(256, positive=True, most=bounds.UNITS, help="transitions per update")
    replay_ratio: int = field(4, positive=True, help="updates per step of all environments")
    learning_starts: int = field(
        5000, budget=True, help="transitions of a task before its first update"
    )
    discount: float = field(0.99, positive=True, help="γ")
    tau: float = field(0.005, positive=True, help="how fast target critics follow")
    initial_alpha: float = field(0.2, positive=True, help="the temperature at first")
    alpha_learning_rate: float = field(3e-4, positive=True, help="of the temperature")
    target_entropy: float | None = field(
        None,
        help="of the policy; none for half of the largest where actions are discrete, else minus "
        "the size of an action",
    )
    reset_replay: bool = field(True, help="empty the replay at a task change")
    reset_optimizers: bool = field(True, help="begin optimizers and reset methods anew there")
    reset_targets: bool = field(True, help="make the target critics equal to the critics there")
    reset_alpha: bool = field(True, help="begin the temperature anew there")
    hidden: tuple[int, ...] = field(
        (128,), positive=True, most=bounds.UNITS, help="units of the hidden layers"
    )
    layer_norm: bool = field(
        False, help="a LayerNorm before the activation of every hidden dense layer"
    )
    init: Init = field("he_uniform", help="how kernels are drawn, first and by resets")
    eval_every: int = field(
        0,
        budget=True,
        help="steps of all environments between evaluations on every task met so far; 0 for none",
    )
    eval_episodes: int = field(
        10,
        budget=True,
        positive=True,
        most=bounds.UNITS,
        help="episodes of the likeliest actions per task in each",
    )
    diagnostics: bool = field(True, help="measure dormant units, ranks and norms")
    probe: int = field(
        512,
        budget=True,
        positive=True,
        most=bounds.UNITS,
        help="observations of the replay that they are measured on",
    )
    histogram: bool = field(
        False, help="count the normalised gradient utilities of every update, for their figure"
    )

    @property
    def steps_per_task(self) -> int:
        """Steps of a seed per task, of all its environments."""
        return self.vector_steps_per_task * self.environments

    def _check(self) -> None:
        # Games may have convolutions alone.
        bounds.check_layers("hidden", self.hidden or (1,) * (self.kind == "games"))
        for name in ("discount", "tau"):
            if getattr(self, name) > 1:
                raise StudyError(f"{name} must be at most 1, got {getattr(self, name)}.")
        if not 0 <= self.learning_starts <= self.steps_per_task:
            raise StudyError(
                f"learning_starts must be from 0 to the {self.steps_per_task} steps of a task, got "
                f"{self.learning_starts}."
            )
        if self.capacity < self.environments:
            raise StudyError(
                f"capacity must be at least the {self.environments} environments, got "
                f"{self.capacity}."
            )
        chunk = self.steps_per_row * self.rows_per_chunk
        if self.vector_steps_per_task % chunk:
            raise StudyError(
                f"steps_per_row · rows_per_chunk = {chunk} must divide vector_steps_per_task, "
                f"{self.vector_steps_per_task}."
            )
        every = self.eval_every
        if every < 0 or (every and (every % chunk or self.vector_steps_per_task % every)):
            raise StudyError(
                f"eval_every must be 0, or a multiple of steps_per_row · rows_per_chunk = {chunk} "
                f"that divides vector_steps_per_task, {self.vector_steps_per_task}; got {every}."
            )
