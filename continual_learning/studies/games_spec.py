"""Experiments in which SAC plays a sequence of games."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError, unknown
from continual_learning.schema.fields import field
from continual_learning.schema.names import GAMES
from continual_learning.studies.sac_spec import SACSpec


@dataclasses.dataclass(frozen=True, kw_only=True)
class GamesSpec(SACSpec):
    """Discrete SAC on MinAtar's games, one after the other."""

    kind: ClassVar[str] = "games"

    games: tuple[str, ...] = field(
        GAMES[:3], help=f"the games in the order of the tasks, over and over: {', '.join(GAMES)}"
    )
    sticky: float = field(0.1, help="how likely the last action is repeated")
    ramping: bool = field(True, help="games become harder the longer they last")
    environments: int = field(
        12, budget=True, positive=True, most=bounds.UNITS, help="environments of a seed"
    )
    episode_length: int = field(1000, positive=True, help="steps after which an episode is cut")
    published_return: bool = field(
        False,
        help="let evaluations restart the training environments every 10,000 steps, as in the "
        "paper's trainer, and report the returns that it would log (published_return)",
    )
    channels: tuple[int, ...] = field(
        (16,), positive=True, most=bounds.UNITS, help="of the 3×3 convolutions"
    )

    def _check(self) -> None:
        if not self.games:
            raise StudyError(f"games must name at least one of {', '.join(GAMES)}.")
        for game in self.games:
            if game not in GAMES:
                raise unknown("game", game, GAMES)
        if not self.channels:
            raise StudyError("channels must name the size of at least one convolution.")
        if not 0 <= self.sticky < 1:
            raise StudyError(f"sticky must be from 0 to below 1, got {self.sticky}.")
        super()._check()
