"""The games of MinAtar, one after the other."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal

from continual_learning.envs.catalog.stream import OnDevice, Place, Stream
from continual_learning.schema.errors import StudyError, unknown
from continual_learning.schema.fields import field
from continual_learning.schema.names import GAMES


@dataclasses.dataclass(frozen=True, kw_only=True)
class MinAtarTasks(Stream):
    """MinAtar's games, one after the other."""

    kind: ClassVar[str] = "minatar"
    place: ClassVar[Place] = "device"

    games: tuple[str, ...] = field(
        GAMES[:3],
        help=f"the games in the order of the tasks, from {', '.join(GAMES)}; the order repeats",
    )
    sticky: float = field(0.1, help="the probability that the last action is repeated")
    ramping: bool = field(True, help="whether games become harder the longer they last")
    episode_length: int = field(
        1000, positive=True, help="number of steps after which an episode is cut off"
    )

    @property
    def actions(self) -> Literal["discrete"]:
        """The kind of actions: a choice of one of six."""
        return "discrete"

    def task_names(self, tasks: int) -> list[str]:
        """Return the games of the tasks."""
        return [self.games[i % len(self.games)] for i in range(tasks)]

    def build(self, shared: Any, tasks: int) -> OnDevice:
        """Return the tasks, ready to be trained on."""
        from continual_learning.envs.draws import Values
        from continual_learning.envs.minatar import MinAtar
        from continual_learning.envs.streams import TaskStream

        # A game that is never met would still have to be compiled.
        order = self.games[:tasks]
        games = tuple(dict.fromkeys(order))
        env = MinAtar(games, sticky=self.sticky, ramping=self.ramping)
        stream = TaskStream(env, {"game": Values(*map(games.index, order))}, names=order)
        return OnDevice(stream, self.episode_length, "fresh")

    def _check(self) -> None:
        if not self.games:
            raise StudyError(f"games must name at least one of {', '.join(GAMES)}.")
        for game in self.games:
            if game not in GAMES:
                raise unknown("game", game, GAMES)
        if not 0 <= self.sticky < 1:
            raise StudyError(f"sticky must be from 0 to below 1, got {self.sticky}.")
