"""Sizes and numbers of proximal policy optimisation."""

from __future__ import annotations

import dataclasses
from typing import Literal

from continual_learning.agents.ppo.returns import Truncation

NUMBERS = ("discount", "gae_lambda", "clip_ratio", "entropy_coefficient")
"""What `hyper` may hold for PPO itself; all other names are for the optimizers."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PPOConfig:
    """How PPO trains. An iteration is a rollout and the updates on it.

    Attributes:
      tasks: how many.
      iterations_per_task: iterations after which the task changes and all episodes begin anew.
      iterations_per_chunk: iterations per call of `Trainer.chunk`; divides the above.
      rollout: steps of every environment per iteration.
      epochs: passes over a rollout.
      minibatches: per epoch; divides rollout · environments.
      discount: γ.
      gae_lambda: λ.
      clip_ratio: how far from 1 the ratio of densities still counts.
      entropy_coefficient: weight of the entropy bonus.
      value_coefficient: weight of half the mean squared error of the value.
      normalise_advantages: to mean 0 and standard deviation 1, per minibatch.
      normalise_observations: by their running mean and standard deviation. An iteration's
        rollout and updates use the same ones, those of all iterations before it.
      reward_scale: factor on training rewards; reported returns are raw.
      reward_floor: least training reward, after the scale.
      reward_ceiling: largest training reward, after the scale.
      action_limit: clip every entry of an action to ±limit before it is applied and stored; None
        leaves actions as they were sampled.
      log_prob_of: whose log density is stored for the ratio of PPO's objective: that of the
        action "applied", or of the action "sampled" before the clip. The latter is a defect: the
        ratio of a clipped action is wrong before any update, and its gradient vanishes where the
        mean is beyond the limit. It is there to repeat runs that had it.
      truncation: see `gae`.
      sample_scores: whether reset methods are given per-sample scores.
      diagnostics: whether dormant units, ranks and norms are measured.
      probe: how many observations of the rollout they are measured on.
    """

    tasks: int
    iterations_per_task: int
    iterations_per_chunk: int = 1
    rollout: int = 96
    epochs: int = 4
    minibatches: int = 32
    discount: float = 0.97
    gae_lambda: float = 0.95
    clip_ratio: float = 0.2
    entropy_coefficient: float = 1e-3
    value_coefficient: float = 0.5
    normalise_advantages: bool = True
    normalise_observations: bool = False
    reward_scale: float = 1.0
    reward_floor: float | None = None
    reward_ceiling: float | None = None
    action_limit: float | None = None
    log_prob_of: Literal["applied", "sampled"] = "applied"
    truncation: Truncation = "mask"
    sample_scores: bool = False
    diagnostics: bool = True
    probe: int = 512

    def __post_init__(self):
        sizes = ("tasks", "iterations_per_task", "iterations_per_chunk", "rollout", "epochs")
        for name in (*sizes, "minibatches", "probe"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}.")
        for name in ("discount", "gae_lambda"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be between 0 and 1, got {getattr(self, name)}.")
        if self.clip_ratio <= 0:
            raise ValueError(f"clip_ratio must be above 0, got {self.clip_ratio}.")
        if self.action_limit is not None and self.action_limit <= 0:
            raise ValueError(f"action_limit must be above 0, got {self.action_limit}.")
        floor, ceiling = self.reward_floor, self.reward_ceiling
        if floor is not None and ceiling is not None and floor > ceiling:
            raise ValueError(
                f"reward_floor must not be above reward_ceiling, got {floor} and {ceiling}."
            )
        if self.truncation not in ("mask", "bootstrap"):
            raise ValueError(f"truncation must be 'mask' or 'bootstrap', got {self.truncation!r}.")
        if self.log_prob_of not in ("applied", "sampled"):
            raise ValueError(
                f"log_prob_of must be 'applied' or 'sampled', got {self.log_prob_of!r}."
            )
        if self.iterations_per_task % self.iterations_per_chunk:
            raise ValueError(
                f"iterations_per_chunk must divide the {self.iterations_per_task} iterations of a "
                f"task, got {self.iterations_per_chunk}."
            )

    def check_environments(self, count: int) -> None:
        """Raises if the sizes do not go with so many environments."""
        samples = self.rollout * count
        if samples % self.minibatches:
            raise ValueError(
                f"minibatches must divide the {samples} samples of a rollout ({self.rollout} steps "
                f"of {count} environments), got {self.minibatches}."
            )
        if self.tasks * self.iterations_per_task * samples >= 2**31:
            raise ValueError("The steps of a run must be fewer than 2³¹, for 'step' is an int32.")
