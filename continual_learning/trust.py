"""Whether modules that an experiment names may be imported: not unless the user says so."""

from __future__ import annotations

from continual_learning.schema.errors import StudyError

_allowed = False


def allow(modules: bool) -> None:
    """Says whether they may, from now on in this process."""
    global _allowed
    _allowed = modules


def check(name: str) -> None:
    """Raises if the id of an environment, `MODULE:ID`, names a module and none is trusted."""
    module, colon, _ = name.rpartition(":")
    if colon and not _allowed:
        raise StudyError(
            f"sequence: {name} would import the module {module!r}, and run what is in it. If you "
            "know it and trust it, say so: --trust-modules."
        )
