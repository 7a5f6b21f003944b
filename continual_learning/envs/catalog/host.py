"""The fields that all streams of environments on the host share."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar, Literal

from continual_learning.envs.catalog.stream import OnHost, Place, Stream
from continual_learning.schema.errors import StudyError
from continual_learning.schema.fields import field

if TYPE_CHECKING:
    from continual_learning.envs.host.protocol import HostStream


@dataclasses.dataclass(frozen=True, kw_only=True)
class HostTasks(Stream):
    """Environments that worker processes step."""

    place: ClassVar[Place] = "host"

    nonfinite: Literal["end"] | None = field(
        None,
        help="end: a reward or an observation that is not finite ends the episode, and the metric "
        "invalid_steps counts it; without it, such a step is an error",
    )
    workers: int | None = field(
        None,
        budget=True,
        positive=True,
        help="processes that step environments; none means one per core",
    )

    def _on_host(self, stream: HostStream) -> OnHost:
        return OnHost(stream, self.workers, self.nonfinite or "refuse")


def check_sequence(sequence: tuple[str, ...]) -> None:
    """Raise a StudyError if there are no names or some name occurs twice."""
    if not sequence:
        raise StudyError("sequence must name at least one task.")
    if len(set(sequence)) < len(sequence):
        raise StudyError(
            "sequence must name each task once, because the names repeat in the same order if "
            f"there are more `tasks` than names; got {', '.join(sequence)}."
        )
