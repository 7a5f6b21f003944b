"""What a stream of tasks says of itself, and the registry of those that experiments can name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple, Self

from continual_learning import extras
from continual_learning.kinds import Registry
from continual_learning.schema.fields import Factor
from continual_learning.schema.names import Nonfinite, Restart

Place = Literal["device", "host", "examples"]
"""Where the environments of a stream are stepped; or it has labeled examples in their place."""


class OnDevice(NamedTuple):
    """Tasks of environments in JAX, ready to be trained on.

    Attributes:
      stream: a `TaskStream`.
      length: steps after which an episode is cut.
      restart: as for `Episodes`.
      options: of the compiler, beside those of the agent.
    """

    stream: Any
    length: int = 1000
    restart: Restart = "first"
    options: Mapping[str, Any] = {}


class OnHost(NamedTuple):
    """Tasks of environments on the host, ready to be trained on.

    Attributes:
      stream: a `HostStream`.
      workers: processes that step its environments; None for one per core.
      nonfinite: as for `Pool`.
    """

    stream: Any
    workers: int | None = None
    nonfinite: Nonfinite = "refuse"


class Examples(NamedTuple):
    """Tasks of labeled examples, ready to be trained on.

    Attributes:
      stream: a `SupervisedStream`.
      dataset: a `Dataset`.
      measure: what accuracy is measured on: "test" (held-out examples) or "train" (those of the
        task itself, where nothing is to be generalized).
    """

    stream: Any
    dataset: Any
    measure: Literal["test", "train"] = "test"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stream(Factor):
    """What changes from task to task.

    A stream of your own is a subclass with a `kind`, its fields, and `build`, which is registered:
    `STREAMS.register(MyStream)`.

    Attributes:
      place: where it runs, which decides what agents can learn from it.
      needs: the extra that must be installed, if there is one.
      parameters: names of the numbers in which tasks may differ, which are columns of rows.
    """

    place: ClassVar[Place]
    needs: ClassVar[str | None] = None
    parameters: ClassVar[tuple[str, ...]] = ()

    @property
    def actions(self) -> Literal["continuous", "discrete", "any"]:
        """What an agent does: numbers, a choice, or whatever its environments say when made."""
        return "continuous"

    def task_names(self, tasks: int) -> list[str]:
        """Return what the first `tasks` tasks are called, in turn; [] where they have no names."""
        del tasks
        return []

    def load(self) -> Any:
        """Return what all methods and seeds share, once what is missing has been told."""
        if self.needs is not None:
            extras.require(self.needs)
        return None

    def fitted(self) -> Self:
        """Return the stream with what only its data can say."""
        return self

    def build(self, shared: Any, tasks: int) -> OnDevice | OnHost | Examples:
        """Return the tasks, ready to be trained on.

        Args:
          shared: by `load`.
          tasks: how many there will be.
        """
        raise NotImplementedError


STREAMS: Registry[Stream] = Registry(
    "stream",
    Stream,
    {
        "robot": "continual_learning.envs.catalog.robot:RobotTasks",
        "minatar": "continual_learning.envs.catalog.minatar:MinAtarTasks",
        "metaworld": "continual_learning.envs.catalog.metaworld:MetaWorldTasks",
        "gymnasium": "continual_learning.envs.catalog.gymnasium:GymnasiumTasks",
        "dataset": "continual_learning.envs.catalog.dataset:DatasetTasks",
    },
)
"""By the name that files have for them."""
