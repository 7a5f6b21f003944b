"""Checked downloads: several mirrors, a checksum, and no half-written file."""

from __future__ import annotations

import hashlib
import http.client
import sys
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from continual_learning.envs.datasets.idx import content
from continual_learning.envs.errors import DatasetError

_CHUNK = 1 << 16


def is_intact(path: Path, sha256: str) -> bool:
    """Whether the file is there and its unpacked content has this checksum."""
    try:
        return _checksum(path.read_bytes()) == sha256
    except (OSError, ValueError):
        return False


def download(
    name: str, mirrors: Sequence[str], target: Path, sha256: str, timeout: float = 30.0
) -> None:
    """Writes `target` from the first mirror that has the right content.

    Args:
      name: the file's name on the mirrors.
      mirrors: addresses of folders, tried in this order.
      target: written at once and only if the content is right; its folder is made if need be.
      sha256: checksum of the content after unpacking, since mirrors may compress differently.
      timeout: seconds without an answer after which a mirror is given up.

    Raises:
      DatasetError: no mirror has it, with what each of them said; or `target` cannot be written.
    """
    failures = []
    for mirror in mirrors:
        url = f"{mirror.rstrip('/')}/{name}"
        try:
            data = _get(url, name, timeout)
            found = _checksum(data)
        except (OSError, http.client.HTTPException, ValueError) as error:
            failures.append(f"{url}: {error or type(error).__name__}")
            continue
        if found == sha256:
            return _write(target, data)
        failures.append(f"{url}: other content than expected (SHA-256 {found}, not {sha256})")
    raise DatasetError(
        f"{name} could not be downloaded. Tried:\n" + "\n".join(f"  {line}" for line in failures)
    )


def _checksum(data: bytes) -> str:
    return hashlib.sha256(content(data)).hexdigest()


def _get(url: str, name: str, timeout: float) -> bytes:
    with urllib.request.urlopen(url, timeout=timeout) as response:
        total = int(response.headers.get("Content-Length") or 0)
        data = bytearray()
        with _progress(name, total) as advance:
            while chunk := response.read(_CHUNK):
                data += chunk
                advance(len(chunk))
    if total and len(data) != total:
        raise OSError(f"the transfer stopped after {len(data)} of {total} bytes")
    return bytes(data)


def _write(target: Path, data: bytes) -> None:
    part = target.with_name(f"{target.name}.{uuid.uuid4().hex}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        part.replace(target)
    except OSError as error:
        raise DatasetError(f"{target} cannot be written: {error}.") from error
    finally:
        with suppress(OSError):  # as a rule it has been renamed and is gone
            part.unlink()


@contextmanager
def _progress(name: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, with rich; else a line for every quarter. Both on standard error."""
    bar = _bar() if sys.stderr.isatty() else None
    if bar is not None:
        with bar:
            task = bar.add_task(name, total=total or None)
            yield lambda size: bar.advance(task, size)
        return

    done = 0

    def advance(size: int) -> None:
        nonlocal done
        before, done = done, done + size
        if total and 4 * done // total > 4 * before // total:
            print(f"{name}: {100 * done // total} % of {total / 1e6:.1f} MB", file=sys.stderr)

    print(f"{name}: downloading", file=sys.stderr)
    yield advance


def _bar():
    try:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn
    except ImportError:
        return None
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    return Progress(*columns, console=Console(stderr=True))
