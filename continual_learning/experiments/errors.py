"""Errors that the user can put right; the command line prints their message alone."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class StudyError(ValueError):
    """Something the user asked for cannot be: the message says what is valid."""


class MissingExtraError(StudyError, ImportError):
    """An optional part is not installed."""


def unknown(what: str, name: object, valid: Iterable[str]) -> StudyError:
    """The error for a name that does not exist, with the closest one and all that do."""
    names = list(valid)
    close = difflib.get_close_matches(str(name), names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return StudyError(f"Unknown {what} {name!r}.{hint} Valid: {', '.join(names) or 'none'}.")
