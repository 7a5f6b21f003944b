"""Fields of a spec: their help, their types, and values from text."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any

from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError, located, unknown


def field(
    default: Any = dataclasses.MISSING,
    *,
    help: str,
    budget: bool = False,
    positive: bool = False,
    most: int = bounds.INTEGERS,
    factory: Any = dataclasses.MISSING,
    alias: str | None = None,
    number: bool = False,
) -> Any:
    """Return a field of a spec.

    Args:
      default: its value unless given. Files leave None out, so a field that may be None must have
        None as its default.
      help: what it means, for the command line.
      budget: whether a scale may change it.
      positive: whether its numbers must be above 0.
      most: the largest whole number that is valid.
      factory: makes the default, if that is mutable.
      alias: another name of its option on the command line.
      number: whether a program takes it as a traced number, so that its lanes may differ in it;
        all other fields are fixed when a program is traced.
    """
    metadata = {
        "help": help,
        "budget": budget,
        "positive": positive,
        "most": most,
        "alias": alias,
        "number": number,
    }
    return dataclasses.field(default=default, default_factory=factory, metadata=metadata)


class Field(typing.NamedTuple):
    """A field as the command line and the checks see it.

    Attributes:
      name: its name in the class.
      hint: its type.
      help: what it means.
      budget: whether a scale may change it.
      positive: whether its numbers must be above 0.
      most: the largest whole number that is valid.
      alias: another name of its option.
      number: whether lanes of a program may differ in it.
    """

    name: str
    hint: Any
    help: str
    budget: bool
    positive: bool
    most: int
    alias: str | None
    number: bool

    @property
    def optional(self) -> bool:
        """Whether it may be None."""
        return type(None) in typing.get_args(self.hint)

    @property
    def type(self) -> Any:
        """The type of a value that is not None."""
        if self.optional:
            return next(a for a in typing.get_args(self.hint) if a is not type(None))
        return self.hint

    @property
    def choices(self) -> tuple[str, ...]:
        """The valid values, where they can be listed."""
        return typing.get_args(self.type) if typing.get_origin(self.type) is typing.Literal else ()

    @property
    def is_factor(self) -> bool:
        """Whether it is a part of an experiment with fields of its own."""
        return isinstance(self.type, type) and issubclass(self.type, Factor)

    @property
    def is_table(self) -> bool:
        """Whether it holds names and values rather than one value."""
        return typing.get_origin(self.type) is Mapping

    @property
    def is_record(self) -> bool:
        """Whether it holds a dataclass, a table in TOML, whose fields are checked like these."""
        return dataclasses.is_dataclass(self.type)

    @property
    def expected(self) -> str:
        """The valid values in words."""
        if self.choices:
            return "one of " + ", ".join(map(repr, self.choices))
        above = " above 0" if self.positive else ""
        if typing.get_origin(self.type) is tuple:
            return f"a list of {_MANY[typing.get_args(self.type)[0]]}{above}"
        if self.is_record:
            return f"a table of {', '.join(fields_of(self.type))}"
        return _WORDS[self.type] + above

    def check(self, value: Any) -> Any:
        """Return a value in the field's type; raise a StudyError if it is not valid."""
        if value is None:
            if self.optional:
                return None
            raise self._error(value)
        if self.choices:
            if value not in self.choices:
                raise unknown(self.name, value, self.choices)
            return value
        if typing.get_origin(self.type) is tuple:
            item = typing.get_args(self.type)[0]
            if not isinstance(value, (list, tuple)) or not all(self._fits(v, item) for v in value):
                raise self._error(value)
            return tuple(value)
        if self.is_record:
            if isinstance(value, self.type):
                return value
            if not isinstance(value, Mapping):
                raise self._error(value)
            with located(self.name):
                return made(self.type, value)
        if not self._fits(value, self.type):
            raise self._error(value)
        return float(value) if self.type is float else value

    def parse(self, text: str) -> Any:
        """Return the value of a text from the command line; raise a StudyError if it has none."""
        if self.optional and text.lower() == "none":
            return None
        if self.is_record:
            with located(self.name):
                return made(self.type, _parse_record(self.type, text))
        try:
            if typing.get_origin(self.type) is tuple:
                item = typing.get_args(self.type)[0]
                value = tuple(item(part) for part in text.split(",") if part.strip())
            elif self.type is bool:
                value = {"true": True, "false": False}[text.lower()]
            else:
                value = text if self.choices else self.type(text)
        except (ValueError, KeyError):
            raise self._error(text) from None
        return self.check(value)

    def _fits(self, value: Any, hint: Any) -> bool:
        if hint is float and bounds.real(value):
            return value > 0 or not self.positive
        if hint is int and bounds.whole(value):
            return value <= self.most and (value > 0 or not self.positive)
        return hint in (bool, str) and type(value) is hint

    def _error(self, value: Any) -> StudyError:
        none = ", or none" if self.optional else ""
        several = value if isinstance(value, list | tuple) else [value]
        large = any(type(each) is int and each > self.most for each in several)
        end = f", at most {self.most:,}" if large else ""
        return StudyError(
            f"{self.name} must be {self.expected}{end}{none}; got {bounds.shown(value)}."
        )


_MANY = {float: "numbers", int: "whole numbers", str: "names"}
_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


@functools.cache
def fields_of(cls: type) -> types.MappingProxyType[str, Field]:
    """Return {name: field} of a spec's class."""
    hints = typing.get_type_hints(cls)
    found: dict[str, Field] = {}
    for f in dataclasses.fields(cls):
        found[f.name] = Field(f.name, hints[f.name], **f.metadata)
    return types.MappingProxyType(found)


def check_fields(spec: Any) -> None:
    """Replace the values of a frozen spec by checked ones, but for tables and factors."""
    for name, each in fields_of(type(spec)).items():
        if not (each.is_table or each.is_factor):
            object.__setattr__(spec, name, each.check(getattr(spec, name)))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Factor:
    """A part of an experiment: fields that are checked when it is made.

    Attributes:
      kind: its name in a registry and in files.
    """

    kind: typing.ClassVar[str]

    def __post_init__(self):
        check_fields(self)
        self._check()

    def _check(self) -> None:
        """Raise a StudyError if the fields are not valid together."""


def made(cls: Any, values: Any) -> Any:
    """Return `cls(**values)`; raise a StudyError for an unknown name or a missing field."""
    if not isinstance(values, Mapping):
        raise StudyError(f"must be a table of names and values, got {bounds.shown(values)}.")
    for name in values:
        if name not in fields_of(cls):
            raise unknown("key", name, fields_of(cls))
    needed = [
        f.name
        for f in dataclasses.fields(cls)
        if f.default is dataclasses.MISSING
        and f.default_factory is dataclasses.MISSING
        and f.name not in values
    ]
    if needed:
        raise StudyError(f"`{needed[0]}` is missing: {fields_of(cls)[needed[0]].help}.")
    return cls(**values)


def _parse_record(cls: type, text: str) -> dict[str, Any]:
    """Return {field of `cls`: value} of a text such as `drop=8000,stop_seeds=3`."""
    known, found = fields_of(cls), {}
    for part in text.split(","):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals:
            raise StudyError(f"write NAME=VALUE,…; got {bounds.shown(part)}.")
        if name not in known:
            raise unknown("name", name, known)
        if name in found:
            raise StudyError(f"{name} is given twice.")
        found[name] = known[name].parse(value)
    return found
