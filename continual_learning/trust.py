"""Trust in the modules that an experiment names: they are imported only if the user allows it."""

from __future__ import annotations

from continual_learning.schema.errors import StudyError

_allowed = False


def allow(modules: bool) -> None:
    """Set whether these modules may be imported in this process from now on."""
    global _allowed
    _allowed = modules


def check(name: str) -> None:
    """Raise a StudyError if an environment's id is `MODULE:ID` and modules are not allowed."""
    module, colon, _ = name.rpartition(":")
    if colon and not _allowed:
        raise StudyError(
            f"sequence: {name} would import the module {module!r}, and run its code. If you know "
            "the module and trust it, allow it: --trust-modules."
        )
