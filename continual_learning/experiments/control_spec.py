"""Experiments in which PPO controls a robot on a stream of tasks."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal, Self

from continual_learning.experiments import bounds
from continual_learning.experiments.base import ExperimentSpec, is_trusted
from continual_learning.experiments.errors import StudyError, unknown
from continual_learning.experiments.fields import field

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
"""What a stream can change about a robot."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ControlSpec(ExperimentSpec):
    """PPO on a robot whose world changes from task to task."""

    kind: ClassVar[str] = "control"

    robot: Literal["ant", "humanoid", "half_cheetah", "hopper", "walker2d"] = field(
        "ant", help="who is controlled"
    )
    # Specs that name no engine mean the one that was once the default; our experiments name theirs.
    physics: Literal["generalized", "mjx", "unrolled"] = field(
        "generalized", help="the physics engine"
    )
    friction: Literal["applied", "as_released"] = field(
        "applied", help="whether friction acts, or stays 1 as in the published code"
    )
    changes: str = field(
        "friction = log_uniform(0.02, 2.0)",
        help="what a task draws anew, as PARAMETER = DRAW; …: "
        f"{', '.join(PARAMETERS)} from log_uniform(a, b), uniform(a, b), integers(a, b), "
        "values(a, b, …) or a number; delays also from interval(a, b), of which every step draws",
    )
    precision: Literal["float32", "default"] = field(
        "float32",
        help="precision of matrix products in the physics; default is the device's own, TF32 on "
        "NVIDIA's GPUs",
    )
    longest_action_delay: int = field(0, help="most steps by which actions can be delayed")
    longest_observation_delay: int = field(
        0, help="most steps by which observations can be delayed"
    )
    told_delays: Literal["one_hot", "scalar", "none", "blind"] = field(
        "blind",
        help="what is seen behind a delayed observation: the last actions and both delays (one_hot "
        "or scalar), the last actions (none), or nothing (blind)",
    )
    environments: int = field(
        2048, budget=True, positive=True, most=bounds.UNITS, help="environments of a seed"
    )
    episode_length: int = field(1000, positive=True, help="steps after which an episode is cut")
    restart: Literal["first", "fresh"] = field(
        "first", help="an episode begins as the environment's first one did, or anew"
    )
    iterations_per_task: int = field(
        102, budget=True, positive=True, help="rollouts, each with its updates, per task"
    )
    iterations_per_chunk: int = field(
        6,
        budget=True,
        positive=True,
        help="iterations between two looks of the host; ranks are measured as often",
    )
    rollout: int = field(96, positive=True, help="steps of every environment per iteration")
    epochs: int = field(4, positive=True, help="passes over a rollout")
    minibatches: int = field(32, positive=True, help="minibatches per epoch")
    discount: float = field(0.97, positive=True, help="γ")
    gae_lambda: float = field(0.95, positive=True, help="λ of the advantages")
    clip_ratio: float = field(0.2, positive=True, help="ε of the clipped objective")
    entropy_coefficient: float = field(1e-3, help="weight of the entropy bonus")
    value_coefficient: float = field(0.5, positive=True, help="weight of the value loss")
    normalise_advantages: bool = field(True, help="per minibatch")
    normalise_observations: bool = field(False, help="by their running mean and deviation")
    reward_scale: float = field(1.0, positive=True, help="factor on training rewards")
    reward_floor: float | None = field(None, help="least training reward, after the factor")
    reward_ceiling: float | None = field(None, help="largest training reward, after the factor")
    action_limit: float | None = field(
        None, positive=True, help="clip what is applied and stored of an action to ±this"
    )
    log_prob_of: Literal["applied", "sampled"] = field(
        "applied",
        help="whose log density PPO compares with: the action's as applied, or, a defect of the "
        "paper's trainer of 2025, as sampled before the clip",
    )
    truncation: Literal["mask", "bootstrap"] = field(
        "mask", help="at a time limit: leave the step out, as Brax does, or use the value there"
    )
    policy_hidden: tuple[int, ...] = field(
        (32, 32, 32, 32), positive=True, most=bounds.UNITS, help="policy's units"
    )
    value_hidden: tuple[int, ...] = field(
        (256, 256, 256, 256, 256), positive=True, most=bounds.UNITS, help="value network's units"
    )
    activation: Literal["relu", "swish", "tanh", "gelu"] = field(
        "swish", help="nonlinearity of the hidden layers"
    )
    layer_norm: bool = field(False, help="a LayerNorm before every activation")
    init: Literal["he_uniform", "he_normal", "lecun_uniform", "lecun_normal", "glorot_uniform"] = (
        field("lecun_normal", help="how kernels are drawn, first and by resets")
    )
    diagnostics: bool = field(True, help="measure dormant units, ranks and norms")

    @property
    def steps_per_task(self) -> int:
        """Environment steps of a seed per task."""
        return self.iterations_per_task * self.rollout * self.environments

    def with_rollout(self, rollout: int) -> Self:
        """With another rollout; a task keeps its number of steps, as nearly as it can."""

        def fields(iterations: int, chunk: int) -> dict[str, int]:
            count = max(1, round(iterations * self.rollout / rollout))
            fits = bounds.largest_divisor(count, chunk)
            return {"iterations_per_task": count, "iterations_per_chunk": fits}

        usual = {
            name: getattr(self, name) for name in ("iterations_per_task", "iterations_per_chunk")
        }
        scales = {
            scale: {**values, **fields(*({**usual, **values}[name] for name in usual))}
            for scale, values in self.scales.items()
        }
        return dataclasses.replace(self, rollout=rollout, scales=scales, **fields(*usual.values()))

    def _check(self) -> None:
        for name in ("policy_hidden", "value_hidden"):
            bounds.check_layers(name, getattr(self, name))
        for name in ("longest_action_delay", "longest_observation_delay", "entropy_coefficient"):
            if getattr(self, name) < 0:
                raise StudyError(f"{name} must not be negative, got {getattr(self, name)}.")
        for name in ("discount", "gae_lambda"):
            if getattr(self, name) > 1:
                raise StudyError(f"{name} must be at most 1, got {getattr(self, name)}.")
        floor, ceiling = self.reward_floor, self.reward_ceiling
        if floor is not None and ceiling is not None and floor > ceiling:
            raise StudyError(
                f"reward_floor must not be above reward_ceiling; got {floor} and {ceiling}."
            )
        for part, whole in (
            ("iterations_per_chunk", self.iterations_per_task),
            ("minibatches", self.rollout * self.environments),
        ):
            value = getattr(self, part)
            if whole % value:
                fits = bounds.largest_divisor(whole, value)
                what = "iterations of a task" if part != "minibatches" else "samples of a rollout"
                raise StudyError(
                    f"{part} must divide the {whole} {what}, as {fits} does; got {value}."
                )
        if not is_trusted():
            self._check_changes()

    def _check_changes(self) -> None:
        from continual_learning.envs.streams import parse_changes, span

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
