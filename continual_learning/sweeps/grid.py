"""A grid of settings: their names and the values to try."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError
from continual_learning.schema.fields import fields_of
from continual_learning.studies.experiment import Experiment, MethodSpec, located

Value = bool | int | float | str | tuple[Any, ...] | None
Configuration = dict[str, Value]
"""One point of a grid: {name: value}."""

MOST = 10_000
"""The most values of a range; a range with more is a typing error."""


@dataclasses.dataclass(frozen=True)
class Grid:
    """Names of settings, and the values to try for every name.

    The numbers of a name are either all whole or all floats.

    Attributes:
      values: {name: its values}, which are all different.
    """

    values: Mapping[str, Sequence[Value]]

    def __post_init__(self):
        if not self.values:
            raise StudyError("The grid is empty: name settings, such as max_reset=0.01,0.02.")
        tidy = {}
        for name, values in self.values.items():
            with located(name):
                tidy[name] = _tidy(values)
        object.__setattr__(self, "values", tidy)

    def __len__(self) -> int:
        return math.prod(map(len, self.values.values()))

    def configurations(self) -> list[Configuration]:
        """Return every combination of values, in which the last name changes fastest."""
        if len(self) > bounds.COUNT:
            raise StudyError(
                f"The grid has {bounds.shown(len(self))} configurations; at most {bounds.COUNT:,} "
                "are tried. A sampler can choose some of them: --sampler optuna --trials N."
            )
        names = list(self.values)
        products = itertools.product(*self.values.values())
        return [dict(zip(names, chosen, strict=True)) for chosen in products]

    def to_dict(self) -> dict[str, Any]:
        """Return the grid as plain data, with "none" for None."""
        return {name: [_plain(value) for value in values] for name, values in self.values.items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Sequence[Any]]) -> Grid:
        """Return the grid that `to_dict` gave as plain data."""
        return cls({name: [_value(value) for value in values] for name, values in data.items()})


def parse_range(text: str) -> list[int | float] | None:
    """Return the numbers of `0.01:0.05:0.005`, with both ends, or None if the text is no range.

    They are computed in decimals, so that 0.01 + 2 · 0.005 is 0.02.
    """
    parts = text.split(":")
    if len(parts) == 1:
        return None
    try:
        first, last, step = map(Decimal, parts)
        count = (last - first) / step
        if not -MOST < count < MOST:
            raise StudyError(
                f"the range {text:.80} has more than {MOST:,} numbers, which is not allowed."
            )
        steps = int(count)
    except StudyError:
        raise
    except (ValueError, ArithmeticError):  # a wrong number of parts, or parts that are no numbers
        raise StudyError(
            f"a range is FIRST:LAST:STEP, such as 0.01:0.05:0.005; got {text[:80]!r}."
        ) from None
    if count < 0:
        raise StudyError(f"the range {text} has no numbers: its step leads away from its end.")
    if count != steps:
        near = [str(first + k * step) for k in (steps, steps + 1)]
        raise StudyError(f"the range {text} misses its end: end it at {' or '.join(near)}.")
    found = [first + k * step for k in range(steps + 1)]
    whole = all(part.strip().lstrip("+-").isdecimal() for part in parts)
    return [int(x) if whole else float(x) for x in found]


def value_of(experiment: Experiment, method: str, name: str) -> Value:
    """Return the value of a name: a field of the experiment, or a field or option of the method.

    Args:
      experiment: the experiment.
      method: the method.
      name: the name of a setting.
    """
    if name in experiment.fields():
        return experiment.value(name)
    chosen = experiment.methods[method]
    if name in fields_of(MethodSpec):
        return getattr(chosen, name)
    return chosen.options.get(name)


def apply(experiment: Experiment, method: str, configuration: Configuration) -> Experiment:
    """Return the experiment with these settings, which are checked.

    Args:
      experiment: the experiment.
      method: the method of the settings.
      configuration: the settings.
    """
    fields = experiment.fields()
    return experiment.override(
        **{name if name in fields else f"{method}.{name}": v for name, v in configuration.items()}
    )


def text_of(value: Value) -> str:
    """Return a value as text of a grid."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _tidy(values: Sequence[Value]) -> tuple[Value, ...]:
    if not values:
        raise StudyError("there are no values to try.")
    if any(isinstance(value, float) for value in values):  # one type in all lanes and rows
        values = [float(value) if type(value) is int else value for value in values]
    if len(set(map(repr, values))) < len(values):
        raise StudyError(f"a value is given twice: {', '.join(map(text_of, values))}.")
    return tuple(values)


def _plain(value: Value) -> Any:
    if value is None:
        return "none"
    return list(value) if isinstance(value, tuple) else value


def _value(value: Any) -> Value:
    if value == "none":
        return None
    return tuple(value) if isinstance(value, list) else value
