"""The rule for a collapse while a study runs, and for the end of a method by collapses."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError
from continual_learning.schema.fields import check_fields, field, made


@dataclasses.dataclass(frozen=True, kw_only=True)
class CollapseRule:
    """The rule that says when a seed has collapsed, and how many collapsed seeds end a method.

    `drop`, `relative` and `sustained` are as in `diagnostics.collapses`.
    """

    drop: float = field(positive=True, help="how far below the earlier peak a return has to be")
    relative: bool = field(False, help="whether drop is a share of the peak's height")
    sustained: int = field(4_000_000, positive=True, help="for how many steps it has to be there")
    bin: int = field(2_000_000, positive=True, help="steps over which returns are averaged first")
    stop_seeds: int | None = field(
        None, positive=True, help="end a method when this many of its seeds, or all, have collapsed"
    )
    stop_share: float | None = field(
        None, positive=True, help="end a method when this share of its seeds has collapsed"
    )

    def __post_init__(self):
        check_fields(self)
        for name, share in (("drop", self.relative), ("stop_share", self.stop_share is not None)):
            if share and getattr(self, name) > 1:
                raise StudyError(f"{name} must be a share, at most 1; got {getattr(self, name)}.")
        if self.stop_seeds is not None and self.stop_share is not None:
            raise StudyError("stop_seeds and stop_share both end a method: leave out one.")

    def __str__(self) -> str:
        """Return the rule as `--collapse` takes it."""
        values = {name: value for name, value in vars(self).items() if value not in (None, False)}
        return ",".join(f"{name}={_shown(value)}" for name, value in values.items())

    @property
    def stops(self) -> bool:
        """Whether the rule can end a method."""
        return self.stop_seeds is not None or self.stop_share is not None

    def ends(self, collapsed: int, seeds: int) -> bool:
        """Return whether the rule ends a method if `collapsed` of its `seeds` have collapsed."""
        if self.stop_share is not None:
            return collapsed / seeds >= self.stop_share
        # A study may have fewer seeds than the rule names; then the rule ends it if all collapsed.
        return self.stop_seeds is not None and collapsed >= min(self.stop_seeds, seeds)


def read(stored: str | Mapping[str, Any]) -> CollapseRule:
    """Return the rule that a file holds: a table, or text in files of earlier versions."""
    return _from_text(stored) if isinstance(stored, str) else made(CollapseRule, stored)


def _from_text(text: str) -> CollapseRule:
    """Return the rule that version 0.1 wrote as `drop = 8000; sustained = 4e6; stop = 50%`."""
    values: dict[str, Any] = {}
    try:
        for part in filter(None, map(str.strip, text.split(";"))):
            name, amount = (word.strip() for word in part.split("="))
            share = amount.endswith("%")
            number = float(amount.removesuffix("%")) / (100 if share else 1)
            if name == "drop":
                values |= {"drop": number, "relative": share}
            elif name == "stop" and share:
                values["stop_share"] = number
            else:
                name = "stop_seeds" if name == "stop" else name
                # A number beyond all steps or seeds has the same effect as the largest one.
                values[name] = min(_whole(number), bounds.INTEGERS)
        return made(CollapseRule, values)
    except ValueError as error:
        raise StudyError(
            f"{bounds.shown(text)} is not a rule ({error}). Write a table, [collapse], with "
            "numbers such as drop = 8000."
        ) from None


def _whole(number: float) -> int:
    if number % 1:
        raise ValueError(f"{number} is not whole")
    return int(number)


def _shown(value: float) -> str:
    return str(value).lower().removesuffix(".0")
