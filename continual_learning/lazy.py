"""Packages whose public names are imported when the first of them is used (PEP 562)."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def attach(
    package: str, homes: Mapping[str, Iterable[str]] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package, which import its public names when asked.

    Importing the package, or a module of it that describes something, then imports nothing else.

    Args:
      package: its name.
      homes: {module: public names that it has}; None: those of the package's module `public`.
    """

    def places() -> dict[str, str]:
        if homes is None:
            public = f"{package}.public"
            return dict.fromkeys(importlib.import_module(public).__all__, public)
        return {name: module for module, names in homes.items() for name in names}

    def __getattr__(name: str) -> Any:
        if name == "__all__":
            return __dir__()
        # `from package import module` asks for the attribute before it imports the module.
        module = importlib.util.find_spec(f"{package}.{name}") is not None
        if module or name.startswith("__") or name not in (known := places()):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(known[name]), name)

    def __dir__() -> list[str]:
        return list(places())

    return __getattr__, __dir__
