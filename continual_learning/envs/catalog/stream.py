"""The description of a stream of tasks, and the registry of those that experiments can name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple, Self

from continual_learning import extras
from continual_learning.kinds import Registry
from continual_learning.schema.fields import Factor
from continual_learning.schema.names import Nonfinite, Restart

Place = Literal["device", "host", "examples"]
"""The place where a stream's environments are stepped; "examples" if it has labeled examples."""


class OnDevice(NamedTuple):
    """Tasks of environments in JAX, ready to be trained on.

    Attributes:
      stream: a `TaskStream`.
      length: the number of steps after which an episode is cut off.
      restart: the same as in `Episodes`.
      options: options of the compiler, in addition to those of the agent.
    """

    stream: Any
    length: int = 1000
    restart: Restart = "first"
    options: Mapping[str, Any] = {}


class OnHost(NamedTuple):
    """Tasks of environments on the host, ready to be trained on.

    Attributes:
      stream: a `HostStream`.
      workers: the number of processes that step its environments; None means one per core.
      nonfinite: the same as in `Pool`.
    """

    stream: Any
    workers: int | None = None
    nonfinite: Nonfinite = "refuse"


class Examples(NamedTuple):
    """Tasks of labeled examples, ready to be trained on.

    Attributes:
      stream: a `SupervisedStream`.
      dataset: a `Dataset`.
      measure: the examples on which accuracy is measured: "test" (held-out examples) or "train"
        (those of the task itself, for tasks that no learner can generalize).
    """

    stream: Any
    dataset: Any
    measure: Literal["test", "train"] = "test"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stream(Factor):
    """The description of a stream of tasks.

    To add your own stream, write a subclass with a `kind`, its fields and `build`, and register
    it: `STREAMS.register(MyStream)`.

    Attributes:
      place: the place where it runs, which decides which agents can learn from it.
      needs: the extra that must be installed, if there is one.
      parameters: the names of the numbers in which tasks may differ; rows have a column for each.
      filmed: whether its environment is a `Robot`, which `render` can film.
    """

    place: ClassVar[Place]
    needs: ClassVar[str | None] = None
    parameters: ClassVar[tuple[str, ...]] = ()
    filmed: ClassVar[bool] = False

    @property
    def actions(self) -> Literal["continuous", "discrete", "any"]:
        """The kind of actions; "any" if only the environments can tell it."""
        return "continuous"

    def task_names(self, tasks: int) -> list[str]:
        """Return the names of the first `tasks` tasks, or [] if they have no names."""
        del tasks
        return []

    def load(self) -> Any:
        """Return the data that all methods and seeds share.

        Raise an error if an extra is missing.
        """
        if self.needs is not None:
            extras.require(self.needs)
        return None

    def fitted(self) -> Self:
        """Return the stream with the values that depend on its data."""
        return self

    def build(self, shared: Any, tasks: int) -> OnDevice | OnHost | Examples:
        """Return the tasks, ready to be trained on.

        Args:
          shared: the result of `load`.
          tasks: the number of tasks of the run.
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
"""The streams by the names that they have in files."""
