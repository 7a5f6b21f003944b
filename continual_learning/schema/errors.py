"""Errors that the user can put right; the command line prints their message alone."""

from __future__ import annotations

import contextlib
import difflib
import re
import shlex
from collections.abc import Iterable, Iterator

_LONGEST = 80  # letters of a name that are shown


class StudyError(ValueError):
    """Something the user asked for cannot be: the message says what is valid."""


class RunError(RuntimeError):
    """A run came to no good end, through no fault of what was asked."""


class MissingExtraError(StudyError, ImportError):
    """An optional part is not installed."""


@contextlib.contextmanager
def located(where: str) -> Iterator[None]:
    """Put the place into the message of an error."""
    try:
        yield
    except StudyError as error:
        raise StudyError(f"{where}: {error}") from None


def printable(text: str) -> str:
    """A text for a terminal: control characters as escapes."""
    return re.sub(r"[^\n -~\xa0-\U0010ffff]", lambda found: repr(found[0])[1:-1], text)


def command(*words: object) -> str:
    """A command of ours as a shell reads it."""
    return shlex.join(["continual", *map(str, words)])


def unknown(what: str, name: object, valid: Iterable[str]) -> StudyError:
    """The error for a name that does not exist, with the closest one and all that do."""
    names, name = list(valid), str(name)[:_LONGEST]
    close = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return StudyError(f"Unknown {what} {name!r}.{hint} Valid: {', '.join(names) or 'none'}.")
