"""Reads TOML files within bounds, and writes them with their checksum in a comment.

The first line of a file is `# sha256 of what follows: …`; further lines may have the checksums of
files beside it. A file without them, as older versions or people write it, is read as it is.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from continual_learning.studies.store.files import StoreError, explained, reading

LARGEST = 64 * 2**20
DEEPEST = 32
_WHOLE = 2**63  # larger than all integers of TOML

_REST = "what follows"
_LINE = re.compile(rb"# sha256 of ([^\n]*): ([0-9a-f]{64})\n")


class DocumentError(ValueError):
    """A text is not TOML, or exceeds the bounds; the message says why."""


class Document(NamedTuple):
    """The content of a file.

    Attributes:
      content: the tables of the file.
      sums: {file beside it: checksum}.
    """

    content: dict[str, Any]
    sums: dict[str, str]


def parse(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text."""
    if len(text) > LARGEST:
        raise DocumentError(f"it has more than {LARGEST:,} characters")
    try:
        content = tomllib.loads(text)
    except RecursionError:
        raise DocumentError(f"it is nested more than {DEEPEST} deep") from None
    except ValueError as error:  # a syntax error, or an integer of thousands of digits
        raise DocumentError(str(error)) from None
    _check(content)
    return content


def encode(content: Mapping[str, Any], sums: Mapping[str, str] | None = None) -> bytes:
    """Return the bytes of a file.

    Args:
      content: plain data.
      sums: {file beside it: checksum}.
    """
    import tomli_w

    lines = "".join(f"# sha256 of {name}: {sum}\n" for name, sum in (sums or {}).items())
    rest = (lines + tomli_w.dumps(content)).encode()
    return f"# sha256 of {_REST}: {checksum(rest)}\n".encode() + rest


def read(path: Path) -> Document:
    """Read a file; raise a StoreError if it cannot be read or has changed since it was written."""
    with explained("read", path), reading(path) as file:
        data = file.read(LARGEST + 1)
    sums: dict[str, str] = {}
    rest = data
    while line := _LINE.match(rest):
        name, rest = line[1].decode(errors="replace"), rest[line.end() :]
        if name == _REST:
            verify(path, rest, line[2].decode())
        else:
            sums[name] = line[2].decode()
    try:
        return Document(parse(rest.decode()), sums)
    except ValueError as error:
        raise StoreError(f"{path} is damaged ({error}): restore it from a copy.") from error


def verify(path: Path, data: bytes, expected: str) -> None:
    """Raise a StoreError unless the data have this checksum."""
    if checksum(data) != expected:
        raise StoreError(
            f"{path} is not what was written: its checksum differs. If a disk or a copy damaged "
            "it, restore it from another copy. If it was edited: a study keeps the settings that "
            "it began with; begin anew, in another folder, for others. To read the edit all the "
            "same, delete the lines that begin with `# sha256` in the TOML file of the folder; "
            "checkpoints of other settings are refused even then."
        )


def checksum(data: bytes) -> str:
    """Return the SHA-256 of data."""
    return hashlib.sha256(data).hexdigest()


def _check(content: dict[str, Any]) -> None:
    """Raise a DocumentError if tables are nested too deep or an integer is too large."""
    left: list[tuple[Any, int]] = [(content, 0)]
    while left:
        value, depth = left.pop()
        if depth > DEEPEST:
            raise DocumentError(f"it is nested more than {DEEPEST} deep")
        if isinstance(value, dict | list):
            inside = value.values() if isinstance(value, dict) else value
            left.extend((each, depth + 1) for each in inside)
        elif isinstance(value, int) and not -_WHOLE <= value < _WHOLE:
            raise DocumentError("it has an integer beyond 64 bits")
