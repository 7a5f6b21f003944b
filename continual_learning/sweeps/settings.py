"""What can be swept: names of settings, which of them are numbers, and grids from text."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from continual_learning.optim import registry
from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError, unknown
from continual_learning.schema.fields import Field, fields_of
from continual_learning.studies import methods
from continual_learning.studies.experiment import Experiment, MethodSpec, located
from continual_learning.sweeps.grid import Grid, Value, parse_range

_APART = ("name", "title", "seeds", "reset", "options")


class Setting(NamedTuple):
    """A name that a grid may have.

    Attributes:
      field: of the experiment or the method; None for an option of the reset method.
      number: whether lanes of one program may differ in it.
      whole: whether its number in the experiment is whole, so that those of a grid are.
      types: of an option: bool, str, or int and float.
    """

    field: Field | None
    number: bool
    whole: bool = False
    types: tuple[type, ...] = ()

    def parse(self, text: str) -> list[Value]:
        """`0.01:0.05:0.005`, `100,1000` or `none,0.02` as values; lists are divided by `;`."""
        if self.field is not None and self.field.expected.startswith("a list"):
            return [self.field.parse(part) for part in text.split(";")]
        several = parse_range(text) if self.number else None
        if several is not None:
            return [self._whole(value) for value in several]
        return [self._parse(part.strip()) for part in text.split(",")]

    def is_lane(self, value: Value) -> bool:
        """Whether a value is a lane's own number; else a program has it."""
        return self.number and type(value) in (int, float)

    def _parse(self, text: str) -> Value:
        if self.field is not None:
            return self.field.parse(text)
        if text.lower() == "none":
            return None
        if self.types == (bool,):
            if text.lower() not in ("true", "false"):
                raise StudyError(f"must be true or false, got {text!r}.")
            return text.lower() == "true"
        if self.types == (str,):
            return text
        return self._whole(bounds.parse_real("each value", text))

    def _whole(self, value: float) -> int | float:
        return int(value) if self.whole and value == int(value) else float(value)


def settings(experiment: Experiment, method: str) -> dict[str, Setting]:
    """All that can be swept of a method: {name: setting}.

    Fields of the experiment, fields of the method, options of its reset method. Numbers of the
    method, of its options and of the agent itself are lanes of a program; all else is static.
    """
    if method not in experiment.methods:
        raise unknown(f"method of {experiment.name}", method, experiment.methods)
    found: dict[str, Setting] = {}
    chosen = experiment.methods[method]
    if chosen.reset is not None:
        for option in dataclasses.fields(registry.get(chosen.reset)):
            if option.name != "key":
                types, _ = methods.option_type(option)
                own = chosen.options.get(option.name, option.default)
                found[option.name] = Setting(None, types == (int, float), type(own) is int, types)
    for field in fields_of(MethodSpec).values():
        if field.name not in _APART:
            found[field.name] = Setting(field, field.type is float)
    for name, field in experiment.fields().items():
        if name not in _APART and not field.is_table and not field.is_record:
            found[name] = Setting(field, field.number)
    return found


def parse(experiment: Experiment, method: str, texts: Sequence[str]) -> Grid:
    """`["max_reset=0.01:0.05:0.005", "every=100,1000"]` as a grid of a method's settings."""
    known, found = settings(experiment, method), {}
    for text in texts:
        name, equals, values = (part.strip() for part in text.partition("="))
        if not equals or not name or not values:
            raise StudyError(f"--grid {text}: write NAME=VALUES, such as max_reset=0.01,0.02.")
        if name in found:
            raise StudyError(f"--grid: {name} is there twice.")
        check(known, method, name)
        with located(f"--grid {name}"):
            found[name] = known[name].parse(values)
    return Grid(found)


def check(known: Mapping[str, Setting], method: str, name: str) -> None:
    """Raises if a name is no setting."""
    if name not in known:
        raise unknown(f"setting of {method}", name, known)
