"""The description of an agent, and the registry of those that experiments can name."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from continual_learning.envs.catalog import Stream
from continual_learning.envs.catalog.stream import Place
from continual_learning.kinds import Registry
from continual_learning.networks.catalog import Networks
from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError
from continual_learning.schema.fields import Factor, fields_of

if TYPE_CHECKING:
    from continual_learning.agents.common.trainer import HostTrainer, MakeOptimizer, Trainer


class Optimizers(Protocol):
    """Makes the optimizers of a method, one for each network."""

    def __call__(self, key: int, *, histogram: bool = True) -> MakeOptimizer:
        """Return the function that makes an optimizer from the units of a network and numbers.

        Args:
          key: a different number for every network, so that they draw different random numbers.
          histogram: whether the log counts normalized utilities.
        """
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Agent(Factor):
    """The description of an agent, with its sizes and numbers.

    To add your own agent, write a subclass with a `kind`, its fields and the abstract methods
    below, and register it: `AGENTS.register(MyAgent)`. Fields that are declared with
    `field(number=True)` are traced numbers, in which lanes of a program may differ.

    Attributes:
      places: the places of the streams that it can learn from.
      actions: the kinds of actions that it can take.
      step_unit: the unit of its steps, in words.
      domain: the kind of its learning, in words.
    """

    places: ClassVar[tuple[Place, ...]]
    actions: ClassVar[tuple[str, ...]] = ("continuous", "discrete")
    step_unit: ClassVar[str] = "environment steps"
    domain: ClassVar[str] = "reinforcement learning"

    def check_stream(self, stream: Stream) -> None:
        """Raise a StudyError if the agent cannot learn from a stream."""
        fits = stream.actions == "any" or stream.actions in self.actions
        if stream.place in self.places and fits:
            return
        words = {
            "device": "environments in JAX",
            "host": "environments on the host",
            "examples": "labeled examples",
        }
        takes = " and ".join(words[place] for place in self.places)
        acts = "" if self.places == ("examples",) else f" with {' or '.join(self.actions)} actions"
        offered = words[stream.place]
        offered += "" if stream.place == "examples" else f" with {stream.actions} actions"
        raise StudyError(
            f"The agent {self.kind!r} learns from {takes}{acts}; the stream {stream.kind!r} has "
            f"{offered}. Take another agent or another stream."
        )

    def steps_per_task(self, stream: Stream) -> int:
        """Return the number of steps of a seed in a task, in the unit of its rows."""
        raise NotImplementedError

    def row_steps(self, stream: Stream) -> int:
        """Return the number of steps of a seed between two rows of metrics."""
        raise NotImplementedError

    def chunks(self, tasks: int) -> int:
        """Return the number of calls of the program that make up the whole run."""
        raise NotImplementedError

    def headline(self, stream: Stream) -> str:
        """Return the column that measures the performance of the agent."""
        del stream
        return "latest_return"

    def bin_width(self, stream: Stream, tasks: int) -> int | None:
        """Return the number of steps of a bin in tables and figures; None to use rows without bins.

        Runs as long as the paper's have the paper's bins of 2M steps. In other runs, a bin has at
        most a tenth of a task, and bins of whole rows divide the task, so that no bin has steps of
        two tasks and all bins have the same weight.
        """
        task, row = self.steps_per_task(stream), self.row_steps(stream)
        if tasks * task >= 100_000_000:
            return 2_000_000
        rows = task // row
        return row * bounds.largest_divisor(rows, max(1, rows // 10))

    def trainer(
        self,
        built: Any,
        networks: Networks,
        optimizers: Optimizers,
        *,
        tasks: int,
        sample_scores: bool,
    ) -> Trainer | HostTrainer:
        """Return the training program of a method.

        Args:
          built: the result of the stream's `build`.
          networks: the description of the networks.
          optimizers: the function that makes the optimizers of the method.
          tasks: the number of tasks of the run.
          sample_scores: whether the reset method of the method needs per-sample scores.
        """
        raise NotImplementedError

    def numbers(self) -> tuple[str, ...]:
        """Return the names of the fields in which lanes of a program may differ."""
        return tuple(name for name, each in fields_of(type(self)).items() if each.number)


AGENTS: Registry[Agent] = Registry(
    "agent",
    Agent,
    {
        "ppo": "continual_learning.agents.ppo.config:PPOConfig",
        "sac": "continual_learning.agents.sac.config:SACConfig",
        "classifier": "continual_learning.agents.supervised.config:ClassifierConfig",
    },
)
"""The agents by the names that they have in files."""
