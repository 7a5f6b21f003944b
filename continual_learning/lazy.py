"""Packages whose public names are imported when the first of them is used (PEP 562)."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any


def attach(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package whose module `public` holds its public names.

    Importing the package, or a module of it that describes something, then imports nothing else.
    """

    def public() -> Any:
        return importlib.import_module(f"{package}.public")

    def __getattr__(name: str) -> Any:
        # `from package import module` asks here first, and imports the module if it is told no.
        unknown = name.startswith("__") or importlib.util.find_spec(f"{package}.{name}") is not None
        if name != "__all__" and (unknown or name not in public().__all__):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(public(), name)

    def __dir__() -> list[str]:
        return list(public().__all__)

    return __getattr__, __dir__
