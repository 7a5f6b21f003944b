"""Writes files and folders that are either complete or absent, even if the process is killed."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

_ADVICE = {
    errno.ENOSPC: "The disk is full: free some space, then resume.",
    errno.EDQUOT: "The disk quota is used up: free some space, then resume.",
    errno.EACCES: "Check the permissions of the folder, or copy the study to one you may write to.",
    errno.EPERM: "Check the permissions of the folder, or copy the study to one you may write to.",
    errno.EEXIST: "There is a file of that name: choose another one.",
    errno.ENOTDIR: "A file stands where a folder should: choose another name.",
    errno.ELOOP: "It is a symbolic link, which is not followed here: remove it.",
    errno.ENAMETOOLONG: "Choose a shorter name.",
    errno.EROFS: "The file system is read-only: copy the study to one you may write to.",
}


class StoreError(RuntimeError):
    """The folder of a study has a fault; the message tells it, its place and its remedy."""


class MachineError(StoreError):
    """The machine is the cause: a disk, permissions, too little memory, another process."""


# Errors of a person who names a path or has changed a folder.
_NAMED = {
    errno.EEXIST,
    errno.EINVAL,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.ENOTEMPTY,
}


def of_machine(error: OSError) -> bool:
    """Return whether the machine, rather than a name, is the cause of an error."""
    return error.errno not in _NAMED


@contextlib.contextmanager
def explained(what: str, path: Path) -> Iterator[None]:
    """Turn an OSError into a StoreError: "Cannot `what` `path`: reason. Advice."."""
    try:
        yield
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, "Resume when the cause is removed.")
        kind = MachineError if of_machine(error) else StoreError
        raise kind(
            f"Cannot {what} {path}: {error.strerror or error}. {advice} "
            "What was saved before is intact."
        ) from error


def reading(path: Path) -> io.BufferedReader:
    """Open a file for reading; raise an OSError, rather than wait, if it is a pipe or the like."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a file", str(path))
    return os.fdopen(descriptor, "rb")


def writing(path: Path, *, new: bool) -> io.BufferedWriter:
    """Open a new file for writing, or the end of one.

    Symbolic links are not followed, so that a folder cannot redirect writes to other files.
    """
    flags = os.O_EXCL if new else os.O_APPEND
    flags |= os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o666), "wb")


def draft_of(path: Path) -> Path:
    """Return the path at which `path` is written before it is renamed into place.

    The draft is hidden and lacks the suffix of `path`, so that readers of Parquet files ignore it.
    """
    return path.with_name(f".{path.name}.tmp")


def sync(path: Path) -> None:
    """Wait until a file, or the list of names in a folder, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Make a folder and its parents, and wait until they are on the disk."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync(path.parent)


def write_file(path: Path, data: bytes) -> None:
    """Write or replace a file, so that a reader sees either the old one or the new one."""
    draft = draft_of(path)
    with explained("write", path):
        make_folder(path.parent)
        _discard(draft)
        try:
            with writing(draft, new=True) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
        except BaseException:
            _discard(draft)
            raise
        sync(path.parent)


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Make a draft folder to fill with files; at the end it becomes `path`, which must be new."""
    draft = draft_of(path)
    with explained("write", path):
        make_folder(path.parent)
        _discard(draft)
        draft.mkdir()
        try:
            yield draft
            for file in draft.iterdir():
                sync(file)
            sync(draft)
            os.rename(draft, path)
        except BaseException:
            _discard(draft)
            raise
        sync(path.parent)


def check_no_links(path: Path) -> None:
    """Raise a StoreError if a path, or anything in that folder, is a symbolic link."""
    for each in (path, *path.glob("*")):
        if each.is_symlink():
            with explained("use", each):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(each))


def remove_folder(path: Path) -> None:
    """Remove a folder at once, so that no reader sees it half empty."""
    draft = draft_of(path)
    with explained("remove", path):
        _discard(draft)
        os.rename(path, draft)
        _discard(draft)


def sweep(folder: Path) -> None:
    """Remove the drafts that a killed process left in a folder."""
    for draft in folder.glob(".*.tmp"):
        _discard(draft)


def _discard(draft: Path) -> None:
    # A draft does no harm, so a failure to remove it is ignored.
    with contextlib.suppress(OSError):
        if draft.is_dir() and not draft.is_symlink():
            shutil.rmtree(draft, ignore_errors=True)
        else:
            draft.unlink(missing_ok=True)
