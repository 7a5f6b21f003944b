"""Registries of the parts of an experiment: our kinds, and those that users register."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from continual_learning import plugins
from continual_learning.schema.errors import StudyError, unknown
from continual_learning.schema.fields import Factor

Described = TypeVar("Described", bound=Factor)


class Registry(Generic[Described]):
    """The classes of one part of an experiment, by the names that files have for them.

    Args:
      what: the name of the part, for errors, such as "stream".
      base: the class of which all are subclasses.
      ours: {kind: "module:class"}; a module is imported when its class is asked for.
    """

    def __init__(self, what: str, base: type[Described], ours: Mapping[str, str]):
        self._what, self._base = what, base
        self._entries: dict[str, type[Described] | str] = dict(ours)
        self._origins: dict[str, str | None] = {}

    def __iter__(self) -> Iterator[str]:
        plugins.installed()
        return iter(self._entries)

    def register(self, cls: type[Described]) -> type[Described]:
        """Make a class known by its `kind`; this is usable as a decorator.

        A class that is defined anew takes the place of the old one.

        Raises:
          StudyError: if another class has this kind.
          TypeError: if it is not a class for this registry, or has no kind.
        """
        if not (isinstance(cls, type) and issubclass(cls, self._base)):
            raise TypeError(f"A {self._what} must be a subclass of {self._base.__name__}: {cls!r}.")
        kind = getattr(cls, "kind", None)
        if not isinstance(kind, str) or not kind.isidentifier():
            raise TypeError(f"{cls.__name__} needs a `kind`, a name that files can have for it.")
        known = self._entries.get(kind)
        if known is not None and (isinstance(known, str) or _source(known) != _source(cls)):
            whose = self._origins.get(kind, "this package") or "your program"
            raise StudyError(
                f"There is a {self._what} {kind!r} already, from {whose}; choose another name."
            )
        if known is not cls:
            self._entries[kind] = cls
            self._origins[kind] = plugins.origin()
        return cls

    def get(self, kind: str) -> type[Described]:
        """Return the class of a kind; the error for an unknown kind lists those that exist."""
        if not isinstance(kind, str) or kind not in list(self):
            error = unknown(f"kind of {self._what}", kind, self)
            raise StudyError(
                f"{error} Load a kind of your own with --plugin FILE.py, or install its package."
            )
        entry = self._entries[kind]
        if not isinstance(entry, str):
            return entry
        module, name = entry.split(":")
        return getattr(importlib.import_module(module), name)


def _source(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"
