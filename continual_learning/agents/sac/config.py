"""Sizes and numbers of soft actor-critic."""

from __future__ import annotations

import dataclasses

NUMBERS = ("discount", "tau", "initial_alpha", "alpha_learning_rate", "target_entropy")
"""What `hyper` may hold for SAC itself; all other names are for the optimizers."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SACConfig:
    """How SAC trains. A step is one of all environments, with the updates after it.

    Attributes:
      tasks: how many.
      steps_per_task: steps after which the task changes and all episodes begin anew.
      steps_per_row: steps that a row of metrics tells of.
      rows_per_chunk: rows per call of `Trainer.chunk`; chunks divide a task.
      capacity: transitions that the replay keeps.
      batch: transitions per update.
      replay_ratio: updates per step.
      learning_starts: transitions of a task before its first update; actions are the policy's
        meanwhile.
      discount: γ.
      tau: how far target critics move to the critics with every update.
      initial_alpha: the temperature at the start.
      alpha_learning_rate: of its optimizer, Adam.
      target_entropy: what the temperature steers the entropy to; by default minus the size of an
        action, or half the largest entropy of discrete actions.
      log_alpha_bounds: least and largest log α.
      reset_replay: whether the replay is emptied at a task change.
      reset_optimizers: whether the optimizers of policy and critics begin anew there, with the
        counters and utilities of their reset methods.
      reset_targets: whether the target critics become the critics there.
      reset_alpha: whether temperature and its optimizer begin anew there.
      eval_every: steps between evaluations on all tasks met so far, at the end of a chunk; 0 for
        none. They divide a task, so that there is one at the end of each.
      eval_episodes: deterministic episodes per task and evaluation.
      published_return_every: environment steps between evaluations that play in the training
        environments, as the published trainer's do every 10,000; see `PublishedReturn`. 0 for none.
      sample_scores: whether reset methods are given per-sample scores.
      diagnostics: whether dormant units, ranks and norms are measured.
      probe: how many observations of the replay they are measured on.
    """

    tasks: int
    steps_per_task: int
    steps_per_row: int
    rows_per_chunk: int = 1
    capacity: int = 1_000_000
    batch: int = 256
    replay_ratio: int = 4
    learning_starts: int = 5000
    discount: float = 0.99
    tau: float = 0.005
    initial_alpha: float = 0.2
    alpha_learning_rate: float = 3e-4
    target_entropy: float | None = None
    log_alpha_bounds: tuple[float, float] = (-5.0, 2.0)
    reset_replay: bool = True
    reset_optimizers: bool = True
    reset_targets: bool = True
    reset_alpha: bool = True
    eval_every: int = 0
    eval_episodes: int = 10
    published_return_every: int = 0
    sample_scores: bool = False
    diagnostics: bool = True
    probe: int = 512

    def __post_init__(self):
        sizes = ("tasks", "steps_per_task", "steps_per_row", "rows_per_chunk", "capacity")
        for name in (*sizes, "batch", "replay_ratio", "eval_episodes", "probe"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}.")
        if self.learning_starts < 0:
            raise ValueError(f"learning_starts must not be below 0, got {self.learning_starts}.")
        if self.published_return_every < 0:
            raise ValueError(
                f"published_return_every must not be below 0, got {self.published_return_every}."
            )
        for name in ("discount", "tau"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be between 0 and 1, got {getattr(self, name)}.")
        if self.initial_alpha <= 0:
            raise ValueError(f"initial_alpha must be above 0, got {self.initial_alpha}.")
        low, high = self.log_alpha_bounds
        if low > high:
            raise ValueError(f"log_alpha_bounds must be (low, high), got {self.log_alpha_bounds}.")
        if self.steps_per_task % self.steps_per_chunk:
            raise ValueError(
                f"The steps of a chunk, steps_per_row · rows_per_chunk = {self.steps_per_row} · "
                f"{self.rows_per_chunk}, must divide the {self.steps_per_task} steps of a task."
            )
        if self.eval_every < 0 or (
            self.eval_every
            and (self.eval_every % self.steps_per_chunk or self.steps_per_task % self.eval_every)
        ):
            raise ValueError(
                f"eval_every must be 0, or a multiple of the {self.steps_per_chunk} steps of a "
                f"chunk that divides the {self.steps_per_task} steps of a task, got "
                f"{self.eval_every}."
            )

    @property
    def steps_per_chunk(self) -> int:
        """Steps per call of `Trainer.chunk`."""
        return self.steps_per_row * self.rows_per_chunk

    def check_environments(self, count: int) -> None:
        """Raises if the sizes do not go with so many environments."""
        if count > self.capacity:
            raise ValueError(
                f"capacity must be at least the {count} environments, got {self.capacity}."
            )
        if self.learning_starts > self.steps_per_task * count:
            raise ValueError(
                f"learning_starts must be at most the {self.steps_per_task * count} transitions of "
                f"a task, or nothing is ever learnt, got {self.learning_starts}."
            )
        if self.tasks * self.steps_per_task * count >= 2**31:
            raise ValueError("The steps of a run must be fewer than 2³¹, for 'step' is an int32.")
