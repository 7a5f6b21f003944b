"""The sizes and numbers of proximal policy optimization; describing them needs no JAX."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar, Literal

from continual_learning.agents.catalog import Agent, Optimizers
from continual_learning.envs.catalog import OnDevice, OnHost, Stream
from continual_learning.envs.catalog.stream import Place
from continual_learning.networks.catalog import Networks
from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError
from continual_learning.schema.fields import field

if TYPE_CHECKING:
    from continual_learning.agents.common.trainer import HostTrainer, Trainer


@dataclasses.dataclass(frozen=True, kw_only=True)
class PPOConfig(Agent):
    """The training of PPO. An iteration is a rollout and the updates on it.

    The rollout and the updates of an iteration normalize observations in the same way, by the
    statistics of all earlier iterations. With `log_prob_of="sampled"`, the ratio of a clipped
    action is wrong before any update, and its gradient vanishes where the mean is beyond the limit.
    This setting repeats runs that had this defect.
    """

    kind: ClassVar[str] = "ppo"
    places: ClassVar[tuple[Place, ...]] = ("device", "host")

    environments: int = field(
        2048, budget=True, positive=True, most=bounds.UNITS, help="environments of a seed"
    )
    iterations_per_task: int = field(
        102, budget=True, positive=True, help="rollouts, each with its updates, per task"
    )
    iterations_per_chunk: int = field(
        6,
        budget=True,
        positive=True,
        help="iterations per call of the program, after which ranks are measured",
    )
    rollout: int = field(96, positive=True, help="steps of every environment per iteration")
    epochs: int = field(4, positive=True, help="passes over a rollout")
    minibatches: int = field(32, positive=True, help="minibatches per epoch")
    discount: float = field(0.97, positive=True, number=True, help="γ")
    gae_lambda: float = field(0.95, positive=True, number=True, help="λ of the advantages")
    clip_ratio: float = field(0.2, positive=True, number=True, help="ε of the clipped objective")
    entropy_coefficient: float = field(1e-3, number=True, help="weight of the entropy bonus")
    value_coefficient: float = field(0.5, positive=True, help="weight of the value loss")
    normalize_advantages: bool = field(True, help="normalize the advantages of every minibatch")
    normalize_observations: bool = field(
        False, help="normalize observations by their running mean and standard deviation"
    )
    reward_scale: float = field(1.0, positive=True, help="factor on training rewards")
    reward_floor: float | None = field(None, help="least training reward, after the factor")
    reward_ceiling: float | None = field(None, help="largest training reward, after the factor")
    action_limit: float | None = field(
        None, positive=True, help="clip actions to ± this limit before they are applied and stored"
    )
    log_prob_of: Literal["applied", "sampled"] = field(
        "applied",
        help="action whose log density the ratio uses: the applied one or, a defect of the paper's "
        "trainer of 2025, the one sampled before the clip",
    )
    truncation: Literal["mask", "bootstrap"] = field(
        "mask", help="whether a time limit masks the step, as Brax does, or bootstraps the value"
    )
    diagnostics: bool = field(True, help="measure dormant units, ranks and norms")
    probe: int = field(
        512,
        budget=True,
        positive=True,
        most=bounds.UNITS,
        help="observations of the rollout on which they are measured",
    )

    def check_stream(self, stream: Stream) -> None:
        """Raise a StudyError if the agent cannot learn from a stream."""
        super().check_stream(stream)
        if stream.actions == "discrete" and self.action_limit is not None:
            raise StudyError("action_limit is for continuous actions; leave it out.")

    def row_steps(self, stream: Stream) -> int:
        """Return the environment steps of a seed per iteration."""
        return self.rollout * self.environments

    def steps_per_task(self, stream: Stream) -> int:
        """Return the environment steps of a seed per task."""
        return self.iterations_per_task * self.rollout * self.environments

    def chunks(self, tasks: int) -> int:
        """Return the number of chunks, each of which has a few iterations."""
        return tasks * self.iterations_per_task // self.iterations_per_chunk

    def trainer(
        self,
        built: OnDevice | OnHost,
        networks: Networks,
        optimizers: Optimizers,
        *,
        tasks: int,
        sample_scores: bool,
    ) -> Trainer | HostTrainer:
        """Return PPO on the stream of tasks."""
        from continual_learning.agents.ppo.actions import actions_of

        device = isinstance(built, OnDevice)
        env = built.stream.environment if device else built.stream
        image = getattr(env, "observation_shape", None)
        outputs = actions_of(env).outputs
        policy = networks.build("policy", outputs, image=image, sample_scores=sample_scores)
        value = networks.build("critic", 1, image=image, sample_scores=sample_scores)
        makers = {"policy": optimizers(0), "value": optimizers(1)}
        if not device:
            from continual_learning.agents.ppo.host import ppo_host

            return ppo_host(
                policy, value, built, makers, self, tasks=tasks, sample_scores=sample_scores
            )
        from continual_learning.agents.ppo.train import ppo

        return ppo(policy, value, built, makers, self, tasks=tasks, sample_scores=sample_scores)

    def _check(self) -> None:
        if self.entropy_coefficient < 0:
            raise StudyError(
                f"entropy_coefficient must not be negative, got {self.entropy_coefficient}."
            )
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
