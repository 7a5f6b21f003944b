"""Plug-ins: files and packages with which users register their own methods and experiments.

A plug-in is code. It runs when a user names its file (`load`, `--plugin FILE.py`) or has installed
its package (the entry points of `GROUP`), and never because a study's folder names it: a file that
a folder records runs again only if this user has named a file of the same content before (`need`).
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import re
import shlex
import stat
import sys
import traceback
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from continual_learning.schema.errors import StudyError

GROUP = "continual_learning.plugins"
"""The entry points that are loaded; importing one registers the classes of its module."""

_MOST = 2**20  # bytes of a file
_HASH = re.compile(r"[0-9a-f]{64}")

_loaded: dict[str, Plugin] = {}  # by SHA-256
_origins: list[str] = []  # the files and packages that are being loaded now
_asked = False  # whether the installed ones have been loaded


class Plugin(NamedTuple):
    """A file that has been loaded, or with which a study was made.

    Attributes:
      file: its absolute path.
      sha256: the SHA-256 of its content, in hexadecimal digits.
    """

    file: str
    sha256: str


def load(path: str | Path) -> Plugin:
    """Run a file that the user names, so that it registers its classes; once for its content.

    The file becomes a module of its own. It may import all installed packages, but no files beside
    it: a plug-in of several files must be an installed package.

    Raises:
      StudyError: if the file cannot be read, is not UTF-8, fails, or has changed since it was
        loaded.
    """
    file = str(Path(path).absolute())
    try:
        content = _content(file)
    except OSError as error:
        raise StudyError(f"The plug-in {file} cannot be read: {error.strerror}.") from None
    plugin = Plugin(file, hashlib.sha256(content).hexdigest())
    if plugin.sha256 not in _loaded:
        if any(each.file == file for each in _loaded.values()):
            raise StudyError(
                f"The plug-in {file} has changed since this process loaded it: start a new one."
            )
        _run(plugin, content)
    _note_named(plugin)
    return _loaded[plugin.sha256]


def loaded() -> tuple[Plugin, ...]:
    """Return the files that this process has loaded, in order."""
    return tuple(_loaded.values())


def words() -> list[str]:
    """Return the options with which a command loads the same files."""
    return [word for each in loaded() for word in ("--plugin", each.file)]


def need(recorded: Sequence[Plugin]) -> None:
    """Load the files that a study was made with, as far as they have been named on this machine.

    Raises:
      StudyError: if a file is missing, has changed, or was never named here.
    """
    for plugin in recorded:
        if plugin.sha256 in _loaded:
            continue
        made = f"The study was made with the plug-in {plugin.file}"
        try:
            content = _content(plugin.file)
        except OSError as error:
            raise StudyError(
                f"{made}, which cannot be read ({error.strerror}). Name the file where it is now: "
                "--plugin FILE."
            ) from None
        found = hashlib.sha256(content).hexdigest()
        if found != plugin.sha256:
            raise StudyError(
                f"{made}, which has changed since (its SHA-256 was {plugin.sha256:.12}… and is "
                f"{found:.12}…). Name a file with the old content: --plugin FILE; or begin a new "
                "study with the new content."
            )
        if not _was_named(plugin):
            raise StudyError(
                f"{made}, which was never named on this machine. It is a program that would run: "
                f"read it and, if you trust it, name it: --plugin {shlex.quote(plugin.file)}"
            )
        _run(plugin, content)


def to_dict(plugins: Sequence[Plugin]) -> dict[str, Any]:
    """Return the entry `plugins` of a record that was made with plug-ins; {} without plug-ins."""
    return {"plugins": [each._asdict() for each in plugins]} if plugins else {}


def from_dict(data: Mapping[str, Any]) -> tuple[Plugin, ...]:
    """Return the plug-ins of such an entry; raise a StudyError if it is malformed."""
    match data.get("plugins", []):
        case [*tables] if all(map(_is_record, tables)):
            return tuple(Plugin(each["file"], each["sha256"]) for each in tables)
    raise StudyError(
        "plugins must list tables of a `file`, an absolute path, and its `sha256`, got "
        f"{repr(data['plugins'])[:200]}."
    )


def absent(data: Mapping[str, Any]) -> tuple[Plugin, ...]:
    """Return the plug-ins of a study whose code is not loaded; () if its entry is malformed."""
    with contextlib.suppress(StudyError):
        return tuple(each for each in from_dict(data) if each.sha256 not in _loaded)
    return ()


def installed() -> None:
    """Load the entry points of installed packages at the first call; warn of one that fails.

    Registries call this when they are asked for names: importing a registry loads nothing.
    """
    global _asked
    if _asked:
        return
    _asked = True
    for point in importlib.metadata.entry_points(group=GROUP):
        owner = f"the package {point.dist.name}" if point.dist else "a package"
        try:
            with _origin(owner):
                point.load()
        except (Exception, SystemExit) as error:
            print(
                f"Warning: the plug-in {point.name!r} of {owner} ({point.value}) is left out: "
                f"{type(error).__name__}: {error}",
                file=sys.stderr,
            )


def origin() -> str | None:
    """Return the file or package that is being loaded now, for registries; None if none is."""
    return _origins[-1] if _origins else None


def _run(plugin: Plugin, content: bytes) -> None:
    """Execute this content alone, as a module that can be found by its name."""
    stem = re.sub(r"\W", "_", Path(plugin.file).stem, flags=re.ASCII)
    module = types.ModuleType(f"continual_learning_plugin_{stem}_{plugin.sha256[:12]}")
    module.__file__ = plugin.file
    sys.modules[module.__name__] = module  # dataclasses and pickles look for it there
    try:
        code = compile(content.decode("utf-8-sig"), plugin.file, "exec", dont_inherit=True)
        with _origin(plugin.file):
            exec(code, module.__dict__)
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        raise StudyError(f"The plug-in {_where(plugin.file, error)}") from error
    _loaded[plugin.sha256] = plugin


def _where(file: str, error: BaseException) -> str:
    """Return the file, the line at which it fails, and the reason."""
    if isinstance(error, UnicodeDecodeError):
        return f"{file} is not UTF-8 text (byte {error.start})."
    if isinstance(error, SyntaxError) and error.filename == file:
        return f"{file}, line {error.lineno}, is not valid Python: {error.msg}."
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    line = f", line {lines[-1]}," if lines else ""
    return f"{file}{line} fails: {type(error).__name__}: {error}"


def _content(file: str) -> bytes:
    """Return the content of a regular file; refuse others, which could block, and large ones."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "it is not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as opened:
            content = opened.read(_MOST + 1)
    finally:
        os.close(descriptor)
    if len(content) > _MOST:
        raise OSError(0, f"it has more than {_MOST:,} bytes")
    return content


@contextlib.contextmanager
def _origin(text: str) -> Iterator[None]:
    _origins.append(text)
    try:
        yield
    finally:
        _origins.pop()


def _note_named(plugin: Plugin) -> None:
    """Record that this user has named a file of this content, if the record can be written."""
    with contextlib.suppress(OSError, RuntimeError):
        note = _note(plugin)
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()


def _was_named(plugin: Plugin) -> bool:
    with contextlib.suppress(OSError, RuntimeError):
        return _note(plugin).is_file()
    return False


def _note(plugin: Plugin) -> Path:
    """Return the path of the empty file that records it; raise a RuntimeError without a home."""
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return base / "continual_learning" / "plugins" / plugin.sha256


def _is_record(value: Any) -> bool:
    match value:
        case {"file": str(file), "sha256": str(sha256)}:
            return os.path.isabs(file) and "\0" not in file and bool(_HASH.fullmatch(sha256))
    return False
