"""Errors that the user can correct; the command line prints their message alone."""

from __future__ import annotations

import contextlib
import difflib
import re
import shlex
from collections.abc import Iterable, Iterator

_LONGEST = 80  # letters of a name that are shown


class StudyError(ValueError):
    """A request of the user that is not valid; the message says what would be valid."""


class RunError(RuntimeError):
    """The failure of a run whose request was valid."""


class MissingExtraError(StudyError, ImportError):
    """The lack of an optional part of the installation."""


@contextlib.contextmanager
def located(where: str) -> Iterator[None]:
    """Put the place in front of the message of a StudyError."""
    try:
        yield
    except StudyError as error:
        raise StudyError(f"{where}: {error}") from None


def printable(text: str) -> str:
    """Return a text for a terminal, with its control characters as escapes."""
    return re.sub(r"[^\n -~\xa0-\U0010ffff]", lambda found: repr(found[0])[1:-1], text)


def command(*words: object) -> str:
    """Return a command of ours as a shell reads it."""
    return shlex.join(["continual", *map(str, words)])


def unknown(what: str, name: object, valid: Iterable[str]) -> StudyError:
    """Return the error for an unknown name; it tells the closest valid name and lists all.

    Args:
      what: the kind of thing that is named, such as "key".
      name: the unknown name.
      valid: the valid names.
    """
    names, name = list(valid), str(name)[:_LONGEST]
    close = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return StudyError(f"Unknown {what} {name!r}.{hint} Valid: {', '.join(names) or 'none'}.")
