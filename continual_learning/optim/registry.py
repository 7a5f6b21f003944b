"""The reset methods that a program knows by a name: ours, and those that users register.

Reading the table needs no JAX: the classes of our own methods are imported when they are asked for.
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from continual_learning.optim.method import ResetMethod


class Entry(NamedTuple):
    """A registered method.

    Attributes:
      target: the class, or where it is, as "module:class".
      label: how tables, figures and reports write it.
      color: its color in figures, as "#RRGGBB"; None for one that is free.
    """

    target: type[ResetMethod] | str
    label: str
    color: str | None

    @property
    def source(self) -> str:
        """Where it comes from, as "module:class"."""
        if isinstance(self.target, str):
            return self.target
        return f"{self.target.__module__}:{self.target.__qualname__}"


class RegistryError(ValueError):
    """Something could not be registered, or is not."""


def _ours(module: str, cls: str, label: str, color: str | None = None) -> Entry:
    return Entry(f"continual_learning.optim.{module}:{cls}", label, color)


# Wong's colors (2011, doi:10.1038/nmeth.1618), which stay apart for every kind of color vision.
_ENTRIES: dict[str, Entry] = {
    "cpr": _ours("cpr", "CPR", "CPR", "#0072B2"),
    "cbp": _ours("cbp", "CBP", "CBP", "#009E73"),
    "redo": _ours("redo", "ReDo", "ReDo", "#CC79A7"),
    "regrama": _ours("regrama", "ReGraMa", "ReGraMa", "#E69F00"),
    "shrink_perturb": _ours("shrink_perturb", "ShrinkAndPerturb", "Shrink & Perturb", "#56B4E9"),
}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_COLOR = re.compile(r"#[0-9A-Fa-f]{6}")


def register(
    name: str, cls: type[ResetMethod], *, label: str | None = None, color: str | None = None
) -> None:
    """Make a reset method known by a name to studies, sweeps, tables, figures and reports.

    Registering the same class again changes nothing.

    Args:
      name: lower-case letters, digits and underscores.
      cls: a subclass of `ResetMethod`, decorated with `@reset_method`.
      label: how texts write it; the name of the class by default.
      color: its color in figures, as "#RRGGBB"; one that is free by default.

    Raises:
      RegistryError: if the name is taken, or no name, or the color is none.
      TypeError: if `cls` is no such class.
    """
    from continual_learning.optim.method import ResetMethod

    if not (isinstance(cls, type) and issubclass(cls, ResetMethod)):
        raise TypeError(f"{name}: must be a subclass of ResetMethod, got {cls!r}.")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RegistryError(
            f"The name of a reset method must be lower-case letters, digits and underscores, at "
            f"most 64, beginning with a letter; got {name!r}."
        )
    if color is not None and not _COLOR.fullmatch(color):
        raise RegistryError(f"{name}: color must be written as '#0072B2' is, got {color!r}.")
    if name in _ENTRIES:
        known = _ENTRIES[name]
        if known.source == f"{cls.__module__}:{cls.__qualname__}":
            return
        raise RegistryError(
            f"There is a reset method {name!r} already, {known.source}; choose another name."
        )
    _ENTRIES[name] = Entry(cls, label or cls.__name__, color)


def registered() -> Mapping[str, Entry]:
    """Return all methods by name, ours first."""
    return MappingProxyType(_ENTRIES)


def get(name: str) -> type[ResetMethod]:
    """Return the class of a name; raises a RegistryError that lists all names if there is none."""
    if name not in _ENTRIES:
        close = difflib.get_close_matches(name, _ENTRIES, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise RegistryError(
            f"Unknown reset method {name!r:.80}.{hint} Valid: {', '.join(_ENTRIES)}."
        )
    target = _ENTRIES[name].target
    if isinstance(target, str):
        module, cls = target.split(":")
        return getattr(importlib.import_module(module), cls)
    return target
