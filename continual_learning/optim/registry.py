"""The reset methods that have a name: ours, and those that users register.

Reading the table needs no JAX: the classes of our methods are imported when they are asked for.
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from continual_learning import plugins

if TYPE_CHECKING:
    from continual_learning.optim.method import ResetMethod


class Entry(NamedTuple):
    """A registered method.

    Attributes:
      target: the class, or its place as "module:class".
      label: its name in tables, figures and reports.
      color: its color in figures, as "#RRGGBB"; None for any free color.
      origin: the plug-in that registered it; None for our methods and those of a program.
      resets: whether it resets units; other methods only change the steps of the optimizer.
    """

    target: type[ResetMethod] | str
    label: str
    color: str | None
    origin: str | None = None
    resets: bool = True

    @property
    def source(self) -> str:
        """The origin of the method: a plug-in, or "module:class"."""
        return self.origin or self._place

    @property
    def is_ours(self) -> bool:
        """Whether it comes with this package."""
        return isinstance(self.target, str)

    @property
    def _place(self) -> str:
        if isinstance(self.target, str):
            return self.target
        return f"{self.target.__module__}:{self.target.__qualname__}"

    def is_of(self, cls: type[ResetMethod]) -> bool:
        """Return whether it is this class, or an earlier definition of it."""
        return self._place == f"{cls.__module__}:{cls.__qualname__}"


class RegistryError(ValueError):
    """A method that cannot be registered, or is not registered."""


def _ours(
    module: str, cls: str, label: str, color: str | None = None, *, resets: bool = True
) -> Entry:
    target = f"continual_learning.optim.methods.{module}:{cls}"
    return Entry(target, label, color, resets=resets)


# Wong's colors (2011, doi:10.1038/nmeth.1618), which stay apart for every kind of color vision.
_ENTRIES: dict[str, Entry] = {
    "cpr": _ours("cpr", "CPR", "CPR", "#0072B2"),
    "cbp": _ours("cbp", "CBP", "CBP", "#009E73"),
    "redo": _ours("redo", "ReDo", "ReDo", "#CC79A7"),
    "regrama": _ours("regrama", "ReGraMa", "ReGraMa", "#E69F00"),
    "shrink_perturb": _ours("shrink_perturb", "ShrinkAndPerturb", "Shrink & Perturb", "#56B4E9"),
    "l2_init": _ours("l2_init", "L2Init", "L2 Init", resets=False),
    "weight_clipping": _ours("weight_clipping", "WeightClipping", "Weight clipping", resets=False),
    "nap": _ours("nap", "NaP", "NaP", resets=False),
    "parseval": _ours("parseval", "Parseval", "Parseval", resets=False),
    "spectral": _ours("spectral", "SpectralRegularization", "Spectral", resets=False),
    "snr": _ours("snr", "SNR", "SNR"),
    "upgd": _ours("upgd", "UPGD", "UPGD", resets=False),
    "trac": _ours("trac", "TRAC", "TRAC", resets=False),
    # The output layer has no units: its reset alone must not pass for a method that never acted.
    "layer_reset": _ours("layer_reset", "LayerReset", "Layer resets", resets=False),
    "full_reset": _ours("layer_reset", "FullReset", "Full resets"),
    "fire": _ours("fire", "FIRE", "FIRE"),
    "dash": _ours("dash", "DASH", "DASH"),
}
OURS = tuple(_ENTRIES)
"""Names of the methods that come with this package."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_LETTERS = 64  # of a label
_COLOR = re.compile(r"#[0-9A-Fa-f]{6}")


def register(
    name: str, cls: type[ResetMethod], *, label: str | None = None, color: str | None = None
) -> None:
    """Make a reset method known by a name to studies, sweeps, tables, figures and reports.

    A class that is registered again, by a notebook's cell that runs twice say, is replaced.

    Args:
      name: lower-case letters, digits and underscores.
      cls: a subclass of `ResetMethod`, decorated with `@reset_method`.
      label: its name in texts; the name of the class by default.
      color: its color in figures, as "#RRGGBB"; any free color by default.

    Raises:
      RegistryError: if the name or the label is taken, or one of them or the color is not valid.
      TypeError: if `cls` is not a subclass of `ResetMethod`.
    """
    from continual_learning.optim.method import ResetMethod

    if not (isinstance(cls, type) and issubclass(cls, ResetMethod)):
        raise TypeError(f"{name}: must be a subclass of ResetMethod, got {cls!r}.")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RegistryError(
            f"The name of a reset method must be lower-case letters, digits and underscores, at "
            f"most 64, beginning with a letter; got {name!r}."
        )
    if color is not None and not is_color(color):
        raise RegistryError(f"{name}: color must have the form '#0072B2', got {color!r}.")
    known = _ENTRIES.get(name)
    if known is not None and known.is_ours and known.is_of(cls):
        return
    if known is not None and not known.is_of(cls):
        raise RegistryError(
            f"There is a reset method {name!r} already, from {known.source}; choose another name."
        )
    label = label or cls.__name__
    if not is_label(label):
        raise RegistryError(
            f"{name}: label must be a line of at most {_LETTERS} letters, got {label!r:.200}."
        )
    same = [other for other, entry in _ENTRIES.items() if entry.label == label and other != name]
    if same:
        raise RegistryError(f"{name}: {same[0]!r} has the label {label!r} already; choose another.")
    _ENTRIES[name] = Entry(cls, label, color, plugins.origin(), cls.resets)


def is_color(value: object) -> TypeGuard[str]:
    """Return whether this is a color as "#RRGGBB"."""
    return isinstance(value, str) and bool(_COLOR.fullmatch(value))


def is_label(value: object) -> TypeGuard[str]:
    """Return whether this is a line of text that can stand in tables and legends."""
    if not isinstance(value, str) or not 0 < len(value) <= _LETTERS:
        return False
    return value.isprintable() and value.strip() == value


def registered() -> Mapping[str, Entry]:
    """Return all methods by name, ours first, with those of installed plug-ins."""
    plugins.installed()
    return MappingProxyType(_ENTRIES)


def listed() -> str:
    """Return all names as an error lists them, with the plug-ins from which they come."""
    return ", ".join(
        f"{name} (from {entry.origin})" if entry.origin else name
        for name, entry in registered().items()
    )


def resets_units(name: str) -> bool:
    """Return whether a method resets units, as one does that is not registered here."""
    return name not in registered() or _ENTRIES[name].resets


def get(name: str) -> type[ResetMethod]:
    """Return the class of a name; raise a RegistryError that lists all names if it is unknown."""
    if name not in registered():
        close = difflib.get_close_matches(name, _ENTRIES, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise RegistryError(
            f"Unknown reset method {name!r:.80}.{hint} Valid: {listed()}. Load a "
            "method of your own with --plugin FILE.py, or install its package."
        )
    target = _ENTRIES[name].target
    if isinstance(target, str):
        module, cls = target.split(":")
        return getattr(importlib.import_module(module), cls)
    return target
