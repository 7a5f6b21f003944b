"""Environments of Gymnasium, one after the other."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal

from continual_learning import trust
from continual_learning.envs.catalog.host import HostTasks, check_sequence
from continual_learning.envs.catalog.stream import OnHost
from continual_learning.schema.errors import StudyError
from continual_learning.schema.fields import field


@dataclasses.dataclass(frozen=True, kw_only=True)
class GymnasiumTasks(HostTasks):
    """Environments of Gymnasium, one after the other."""

    kind: ClassVar[str] = "gymnasium"
    needs: ClassVar[str | None] = "gymnasium"

    sequence: tuple[str, ...] = field(
        ("Pendulum-v1",),
        alias="task",
        help="ids of the environments in the order of the tasks; the order repeats",
    )

    @property
    def actions(self) -> Literal["any"]:
        """The kind of actions, which only the environments can tell."""
        return "any"

    def task_names(self, tasks: int) -> list[str]:
        """Return the ids of the environments of the tasks."""
        return [self.sequence[i % len(self.sequence)] for i in range(tasks)]

    def load(self) -> None:
        """Raise an error if a package is missing or an environment cannot be made."""
        super().load()
        self.build(None, 1)

    def build(self, shared: Any, tasks: int) -> OnHost:
        """Return the tasks, ready to be trained on."""
        from continual_learning.envs.host.gymnasium import GymnasiumStream

        for name in self.sequence:
            trust.check(name)
        try:
            return self._on_host(GymnasiumStream(self.sequence))
        except Exception as error:  # Gymnasium raises many kinds of exceptions
            raise StudyError(f"sequence: {error}") from None

    def _check(self) -> None:
        check_sequence(self.sequence)
