"""What an agent says of itself, and the registry of those that experiments can name."""

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
        """Return what makes an optimizer from the units of a network and traced numbers.

        Args:
          key: another number for each network, so that they draw differently.
          histogram: whether the log counts normalized utilities.
        """
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Agent(Factor):
    """Who learns, and with which sizes and numbers.

    An agent of your own is a subclass with a `kind`, its fields, what is abstract below, and
    `trainer`, which is registered: `AGENTS.register(MyAgent)`. Fields that are declared with
    `field(number=True)` are traced numbers, in which lanes of a program may differ.

    Attributes:
      places: what streams it can learn from.
      actions: which actions of theirs it can take.
      step_unit: what a step is, in words.
      domain: what it does, in words.
    """

    places: ClassVar[tuple[Place, ...]]
    actions: ClassVar[tuple[str, ...]] = ("continuous", "discrete")
    step_unit: ClassVar[str] = "environment steps"
    domain: ClassVar[str] = "reinforcement learning"

    def check_stream(self, stream: Stream) -> None:
        """Raise a StudyError that says both sides if it cannot learn from a stream."""
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
        """Return how many steps a seed makes in a task, as its rows count them."""
        raise NotImplementedError

    def row_steps(self, stream: Stream) -> int:
        """Return after how many steps of a seed there is a row of metrics."""
        raise NotImplementedError

    def chunks(self, tasks: int) -> int:
        """Return into how many calls of a program the whole run is divided."""
        raise NotImplementedError

    def headline(self, stream: Stream) -> str:
        """Return the column that says how well it does."""
        del stream
        return "latest_return"

    def bin_width(self, stream: Stream, tasks: int) -> int | None:
        """Return the steps of a bin in tables and figures; None for the rows as they are.

        Of runs as long as the paper's it is the paper's, 2M. Else it is at most a tenth of a task,
        in whole rows that divide it: all bins are of one task, and weigh the same.
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
          built: by the stream's `build`.
          networks: how they are made.
          optimizers: of the method.
          tasks: how many there will be.
          sample_scores: whether its reset method must be given per-sample scores.
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
"""By the name that files have for them."""
