"""The sizes and numbers of soft actor-critic; describing them needs no JAX."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

from continual_learning.agents.catalog import Agent, Optimizers
from continual_learning.envs.catalog import OnDevice, OnHost, Stream
from continual_learning.envs.catalog.stream import Place
from continual_learning.networks.catalog import Networks
from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError
from continual_learning.schema.fields import field

if TYPE_CHECKING:
    from continual_learning.agents.common.trainer import HostTrainer, Trainer

PUBLISHED_EVERY = 10_000
"""The number of steps between two evaluations of the published trainer."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SACConfig(Agent):
    """The training of SAC. A step is a step of all environments with the updates after it.

    The policy also chooses the actions before learning starts. A chunk is a few rows, and chunks
    divide a task. If there are evaluations, one takes place at the end of every task.
    """

    kind: ClassVar[str] = "sac"
    places: ClassVar[tuple[Place, ...]] = ("device", "host")

    environments: int = field(
        10, budget=True, positive=True, most=bounds.UNITS, help="environments of a seed"
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
        help="rows per call of the program, after which ranks are measured",
    )
    capacity: int = field(1_000_000, budget=True, positive=True, help="transitions in the replay")
    batch: int = field(256, positive=True, most=bounds.UNITS, help="transitions per update")
    replay_ratio: int = field(4, positive=True, help="updates per step of all environments")
    learning_starts: int = field(
        5000, budget=True, help="transitions of a task before its first update"
    )
    discount: float = field(0.99, positive=True, number=True, help="γ")
    tau: float = field(
        0.005, positive=True, number=True, help="step size of the target critics per update"
    )
    initial_alpha: float = field(0.2, positive=True, number=True, help="initial temperature")
    alpha_learning_rate: float = field(
        3e-4, positive=True, number=True, help="learning rate of the temperature"
    )
    target_entropy: float | None = field(
        None,
        number=True,
        help="target entropy of the policy; none means half of the largest entropy if actions are "
        "discrete, and otherwise minus the size of an action",
    )
    log_alpha_bounds: tuple[float, ...] | None = field(
        None,
        help="least and largest log α; none means -5 and 2 if actions are discrete, and otherwise "
        "no bounds",
    )
    reset_replay: bool = field(True, help="empty the replay at a task change")
    reset_optimizers: bool = field(
        True, help="begin optimizers and reset methods anew at a task change"
    )
    reset_targets: bool = field(
        True, help="make the target critics equal to the critics at a task change"
    )
    reset_alpha: bool = field(True, help="begin the temperature anew at a task change")
    staleness: int = field(
        1,
        help="1: environments on the host step while the device learns from the step before; "
        "0: they wait for it",
    )
    eval_every: int = field(
        0,
        budget=True,
        help="steps of all environments between evaluations on every task met so far; 0 means no "
        "evaluations",
    )
    eval_episodes: int = field(
        10,
        budget=True,
        positive=True,
        most=bounds.UNITS,
        help="episodes per task in an evaluation, which uses the likeliest actions",
    )
    published_return: bool = field(
        False,
        help="let evaluations restart the training environments in JAX every 10,000 steps, as the "
        "paper's trainer does, and report the returns that it would log (published_return)",
    )
    diagnostics: bool = field(True, help="measure dormant units, ranks and norms")
    probe: int = field(
        512,
        budget=True,
        positive=True,
        most=bounds.UNITS,
        help="observations of the replay on which they are measured",
    )
    histogram: bool = field(
        False, help="count the normalized gradient utilities of every update, for their figure"
    )

    @property
    def steps_per_chunk(self) -> int:
        """The number of steps of all environments per call of `Trainer.chunk`."""
        return self.steps_per_row * self.rows_per_chunk

    def check_stream(self, stream: Stream) -> None:
        """Raise a StudyError if the agent cannot learn from a stream."""
        super().check_stream(stream)
        if self.published_return and stream.place != "device":
            raise StudyError("published_return is for environments in JAX; leave it out.")

    def row_steps(self, stream: Stream) -> int:
        """Return the environment steps of a seed per row."""
        return self.steps_per_row * self.environments

    def steps_per_task(self, stream: Stream) -> int:
        """Return the environment steps of a seed per task."""
        return self.vector_steps_per_task * self.environments

    def chunks(self, tasks: int) -> int:
        """Return the number of chunks, each of which has a few rows."""
        return tasks * self.vector_steps_per_task // self.steps_per_chunk

    def trainer(
        self,
        built: OnDevice | OnHost,
        networks: Networks,
        optimizers: Optimizers,
        *,
        tasks: int,
        sample_scores: bool,
    ) -> Trainer | HostTrainer:
        """Return SAC on the stream of tasks."""
        from continual_learning.agents.sac.actions import actions_of

        device = isinstance(built, OnDevice)
        env = built.stream.environment if device else built.stream
        image, actions = getattr(env, "observation_shape", None), actions_of(env)
        policy = networks.build("policy", actions.outputs, image=image, sample_scores=sample_scores)
        critic = networks.build(
            "critic", actions.critic_outputs, image=image, sample_scores=sample_scores
        )
        makers = {
            "policy": optimizers(0, histogram=self.histogram),
            "critic": optimizers(1, histogram=self.histogram),
        }
        if not device:
            from continual_learning.agents.sac.host import sac_host

            return sac_host(
                policy, critic, built, makers, self, tasks=tasks, sample_scores=sample_scores
            )
        from continual_learning.agents.sac.train import sac

        return sac(
            policy,
            critic,
            built,
            makers,
            self,
            tasks=tasks,
            sample_scores=sample_scores,
            published_every=PUBLISHED_EVERY if self.published_return else 0,
        )

    def _check(self) -> None:
        for name in ("discount", "tau"):
            if getattr(self, name) > 1:
                raise StudyError(f"{name} must be at most 1, got {getattr(self, name)}.")
        limits = self.log_alpha_bounds
        if limits is not None and (len(limits) != 2 or limits[0] > limits[1]):
            raise StudyError(f"log_alpha_bounds must be (low, high), got {limits}.")
        if self.staleness not in (0, 1):
            raise StudyError(f"staleness must be 0 or 1, got {self.staleness}.")
        transitions = self.vector_steps_per_task * self.environments
        if not 0 <= self.learning_starts <= transitions:
            raise StudyError(
                f"learning_starts must be from 0 to the {transitions} steps of a task, got "
                f"{self.learning_starts}."
            )
        if self.capacity < self.environments:
            raise StudyError(
                f"capacity must be at least the {self.environments} environments, got "
                f"{self.capacity}."
            )
        chunk = self.steps_per_chunk
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
