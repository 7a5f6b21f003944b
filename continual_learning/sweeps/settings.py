"""The settings that a sweep can vary, and grids from text."""

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
      field: the field of the experiment or the method; None for an option of the reset method.
      number: whether lanes of one program may have different numbers.
      whole: whether its number in the experiment is whole, so that those of a grid are whole.
      types: the types of an option: bool, str, or int and float.
    """

    field: Field | None
    number: bool
    whole: bool = False
    types: tuple[type, ...] = ()

    def parse(self, text: str) -> list[Value]:
        """Return the values of `0.01:0.05:0.005`, `100,1000` or `none,0.02`; `;` divides lists."""
        if self.field is not None and self.field.expected.startswith("a list"):
            return [self.field.parse(part) for part in text.split(";")]
        several = parse_range(text) if self.number else None
        if several is not None:
            return [self._whole(value) for value in several]
        return [self._parse(part.strip()) for part in text.split(",")]

    def is_lane(self, value: Value) -> bool:
        """Return whether a value is a lane's own number, or else one of the whole program."""
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
    """Return {name: setting} of all settings that a sweep of a method can vary.

    They are fields of the experiment, fields of the method, and options of its reset method.
    Numbers of the method, of its options and of the agent are lanes of a program, and all other
    settings are static.
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
    """Return the grid of `["max_reset=0.01:0.05:0.005", "every=100,1000"]`.

    Args:
      experiment: the experiment.
      method: the method whose settings the grid has.
      texts: names and their values.
    """
    known, found = settings(experiment, method), {}
    for text in texts:
        name, equals, values = (part.strip() for part in text.partition("="))
        if not equals or not name or not values:
            raise StudyError(f"--grid {text}: write NAME=VALUES, such as max_reset=0.01,0.02.")
        if name in found:
            raise StudyError(f"--grid: {name} is given twice.")
        check(known, method, name)
        with located(f"--grid {name}"):
            found[name] = known[name].parse(values)
    return Grid(found)


def check(known: Mapping[str, Setting], method: str, name: str) -> None:
    """Raise an error if a name is no setting.

    Args:
      known: the settings.
      method: the method of the settings, for the message.
      name: the name to check.
    """
    if name not in known:
        raise unknown(f"setting of {method}", name, known)
