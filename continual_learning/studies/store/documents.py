"""TOML files: read within bounds, written with their checksum in a comment.

The first line of a file is `# sha256 of what follows: …`; further ones may have the checksums of
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
_WHOLE = 2**63  # beyond all integers of TOML

_REST = "what follows"
_LINE = re.compile(rb"# sha256 of ([^\n]*): ([0-9a-f]{64})\n")


class DocumentError(ValueError):
    """A text is no TOML that is read here; says why."""


class Document(NamedTuple):
    """What is in a file.

    Attributes:
      content: its tables.
      sums: {file beside it: checksum}.
    """

    content: dict[str, Any]
    sums: dict[str, str]


def parse(text: str) -> dict[str, Any]:
    """The tables of a TOML text."""
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
    """The text of a file.

    Args:
      content: plain data.
      sums: {file beside it: checksum}.
    """
    import tomli_w

    lines = "".join(f"# sha256 of {name}: {sum}\n" for name, sum in (sums or {}).items())
    rest = (lines + tomli_w.dumps(content)).encode()
    return f"# sha256 of {_REST}: {checksum(rest)}\n".encode() + rest


def read(path: Path) -> Document:
    """A file; raises a StoreError if it cannot be read, or is not what was written."""
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
    """Raises a StoreError unless data has this checksum."""
    if checksum(data) != expected:
        raise StoreError(
            f"{path} is not what was written: its checksum differs. If a disk or a copy damaged "
            "it, restore it from another copy. If it was edited: what has begun goes on as it "
            "began; begin anew, in another folder, for other settings. To read the edit all the "
            "same, delete the lines that begin with `# sha256` in the TOML file of the folder; "
            "checkpoints of other settings are refused even then."
        )


def checksum(data: bytes) -> str:
    """The SHA-256 of data."""
    return hashlib.sha256(data).hexdigest()


def _check(content: dict[str, Any]) -> None:
    """Raises where tables are too deep, or integers beyond what TOML has."""
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
