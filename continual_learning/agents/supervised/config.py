"""The sizes of a classifier's training; describing them needs no JAX."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from continual_learning.agents.catalog import Agent, Optimizers
from continual_learning.envs.catalog import Examples, Stream
from continual_learning.envs.catalog.stream import Place
from continual_learning.networks.catalog import Networks
from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError
from continual_learning.schema.fields import field

if TYPE_CHECKING:
    from continual_learning.agents.common.trainer import Trainer


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassifierConfig(Agent):
    """The training of a classifier."""

    kind: ClassVar[str] = "classifier"
    places: ClassVar[tuple[Place, ...]] = ("examples",)
    step_unit: ClassVar[str] = "updates"
    domain: ClassVar[str] = "supervised learning"

    epochs: int = field(1, budget=True, positive=True, help="passes over a task's examples")
    batch_size: int = field(8, positive=True, most=bounds.UNITS, help="examples per update")
    redraw_head: bool = field(True, help="draw the output layer anew at a task change")
    rows_per_task: int = field(10, budget=True, positive=True, help="rows of metrics per task")
    diagnostics: bool = field(True, help="measure dormant units, ranks and norms")
    probe: int = field(
        512,
        budget=True,
        positive=True,
        most=bounds.UNITS,
        help="examples on which they are measured",
    )

    def check_stream(self, stream: Any) -> None:
        """Raise a StudyError if the stream has no examples or the sizes do not fit them."""
        super().check_stream(stream)
        steps, rows = self.steps_per_task(stream), self.rows_per_task
        if steps == 0:
            raise StudyError(
                f"batch_size must be at most the number of examples of a task, {stream.examples}; "
                f"got {self.batch_size}."
            )
        if steps % rows:
            fits = bounds.largest_divisor(steps, rows)
            raise StudyError(
                f"rows_per_task must divide the {steps} updates of a task, as {fits} does; got "
                f"{rows}."
            )

    def steps_per_task(self, stream: Any) -> int:
        """Return the updates per task."""
        return self.epochs * (stream.examples // self.batch_size)

    def row_steps(self, stream: Stream) -> int:
        """Return the updates per row."""
        return self.steps_per_task(stream) // self.rows_per_task

    def chunks(self, tasks: int) -> int:
        """Return the number of tasks, since a chunk is a task."""
        return tasks

    def headline(self, stream: Any) -> str:
        """Return the column of the accuracy on held-out examples, or on those of the task."""
        return f"{stream.measure}_accuracy"

    def bin_width(self, stream: Stream, tasks: int) -> int | None:
        """Return the updates of a task if there are many tasks, or else None."""
        return self.steps_per_task(stream) if tasks > 50 else None

    def trainer(
        self,
        built: Examples,
        networks: Networks,
        optimizers: Optimizers,
        *,
        tasks: int,
        sample_scores: bool,
    ) -> Trainer:
        """Return the training of a classifier on the stream of tasks."""
        from continual_learning.agents.supervised.train import classifier

        network = networks.build("classifier", built.dataset.classes, sample_scores=sample_scores)
        return classifier(
            network, built, optimizers(0), self, tasks=tasks, sample_scores=sample_scores
        )
