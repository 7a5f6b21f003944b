"""What counts as a collapse while a study runs, as text: `drop = 8000; stop = 50%`."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

from continual_learning.schema.errors import StudyError, unknown

HELP = (
    "watch for collapse, as NAME = VALUE; …: drop (8000, or 50% of the peak's height), "
    "sustained (steps, 4000000), bin (steps, 2000000), stop (end a method when so many seeds have "
    "collapsed: 3, or 50%; left out, never)"
)
_NAMES = ("drop", "sustained", "bin", "stop")


class Amount(NamedTuple):
    """A number, or a share of something."""

    number: float
    share: bool


@dataclasses.dataclass(frozen=True)
class CollapseRule:
    """When a seed has collapsed, and how many of them end a method.

    Attributes:
      drop: how far below the peak; a share is one of its height (`diagnostics.collapses`).
      sustained: for how many steps.
      bin: steps over which returns are averaged first.
      stop: end a method when so many seeds have collapsed; None: never.
    """

    drop: Amount
    sustained: int = 4_000_000
    bin: int = 2_000_000
    stop: Amount | None = None

    def ends(self, collapsed: int, seeds: int) -> bool:
        """Whether it ends a method that so many of its seeds have collapsed."""
        if self.stop is None:
            return False
        if self.stop.share:
            return collapsed / seeds >= self.stop.number
        # A study may have fewer seeds than the rule speaks of; that all have collapsed is enough.
        return collapsed >= min(self.stop.number, seeds)


def parse_rule(text: str) -> CollapseRule:
    """`drop = 8000; sustained = 4000000; bin = 2000000; stop = 50%`; raises if it is none."""
    given: dict[str, Amount] = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals:
            raise StudyError(f"{part!r}: write NAME = VALUE, such as drop = 8000.")
        if name not in _NAMES:
            raise unknown("name", name, _NAMES)
        if name in given:
            raise StudyError(f"{name} is given twice.")
        given[name] = _amount(name, value)
    if "drop" not in given:
        raise StudyError("`drop` is missing: how far below the peak, such as drop = 8000.")
    steps = {name: int(given[name].number) for name in ("sustained", "bin") if name in given}
    return CollapseRule(given["drop"], stop=given.get("stop"), **steps)


def _amount(name: str, text: str) -> Amount:
    """`8000` as (8000, False), `50%` as (0.5, True)."""
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = math.nan
    share = text.endswith("%")
    valid = "a number above 0, or up to 100%"
    fits = 0 < number < math.inf and not (share and number > 100)
    if name in ("sustained", "bin"):
        valid, fits = "a whole number of steps above 0", fits and not share
    elif name == "stop":
        valid = "a number of seeds, or up to 100% of them"
    if not fits or (name != "drop" and not share and number % 1):
        raise StudyError(f"{name} must be {valid}; got {text!r}.")
    return Amount(number / 100 if share else number, share)
