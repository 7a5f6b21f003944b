"""Names of what an experiment can be made of: ours, and those that users register."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from continual_learning.schema.errors import StudyError, unknown
from continual_learning.schema.fields import Factor

Described = TypeVar("Described", bound=Factor)


class Registry(Generic[Described]):
    """Classes by the name that files have for them.

    Args:
      what: they are, for errors, such as "stream".
      base: they are subclasses of this.
      ours: {kind: "module:class"}; a module is imported when its class is asked for.
    """

    def __init__(self, what: str, base: type[Described], ours: Mapping[str, str]):
        self._what, self._base = what, base
        self._entries: dict[str, type[Described] | str] = dict(ours)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def register(self, cls: type[Described]) -> type[Described]:
        """Make a class known by its `kind`; usable as a decorator.

        Registering the same class again changes nothing.

        Raises:
          StudyError: if another class has this kind.
          TypeError: if it is no class of this registry, or has no kind.
        """
        if not (isinstance(cls, type) and issubclass(cls, self._base)):
            raise TypeError(f"A {self._what} must be a subclass of {self._base.__name__}: {cls!r}.")
        kind = getattr(cls, "kind", None)
        if not isinstance(kind, str) or not kind.isidentifier():
            raise TypeError(f"{cls.__name__} needs a `kind`, a name that files can have for it.")
        if kind in self._entries and self.source(kind) != _source(cls):
            raise StudyError(
                f"There is a {self._what} {kind!r} already, {self.source(kind)}; choose another "
                "name."
            )
        self._entries[kind] = cls
        return cls

    def get(self, kind: str) -> type[Described]:
        """Return the class of a kind; the error for another one lists those there are."""
        if not isinstance(kind, str) or kind not in self._entries:
            raise unknown(f"kind of {self._what}", kind, self._entries)
        entry = self._entries[kind]
        if not isinstance(entry, str):
            return entry
        module, name = entry.split(":")
        found: type[Described] = getattr(importlib.import_module(module), name)
        self._entries[kind] = found
        return found

    def source(self, kind: str) -> str:
        """Return where a kind comes from, as "module:class"."""
        entry = self._entries[kind]
        return entry if isinstance(entry, str) else _source(entry)


def _source(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"
