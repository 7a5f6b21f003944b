"""What all streams of environments on the host have."""

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
        help="what a reward or an observation does that is not finite: end ends the episode, which "
        "the metric invalid_steps counts; without it, it is an error",
    )
    workers: int | None = field(
        None,
        budget=True,
        positive=True,
        help="processes that step environments; none for one per core",
    )

    def _on_host(self, stream: HostStream) -> OnHost:
        return OnHost(stream, self.workers, self.nonfinite or "refuse")


def check_sequence(sequence: tuple[str, ...]) -> None:
    """Raise unless these are names, each of them once."""
    if not sequence:
        raise StudyError("sequence must name at least one task.")
    if len(set(sequence)) < len(sequence):
        raise StudyError(
            "sequence must name each task once: with more `tasks` than names they come again, in "
            f"the same order; got {', '.join(sequence)}."
        )
