"""Files and folders that are either complete or not there, whatever happens to the process."""

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
    """Something is wrong with the folder of a study; says what, where, and what to do."""


class MachineError(StoreError):
    """The machine is in the way: a disk, permissions, too little memory, another process."""


# Errors of who names a path, or of who changed a folder.
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
    """Whether an error is of the machine, rather than of a name."""
    return error.errno not in _NAMED


@contextlib.contextmanager
def explained(what: str, path: Path) -> Iterator[None]:
    """Turns an OSError into a StoreError: "Cannot `what` `path`: reason. Advice."."""
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
    """Opens a file to read it; what is no file, such as a pipe, is an error rather than a wait."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no file", str(path))
    return os.fdopen(descriptor, "rb")


def writing(path: Path, *, new: bool) -> io.BufferedWriter:
    """Opens a file to write it: a new one, or at the end of one.

    Symbolic links are not followed: whoever made a folder does not choose what else is written.
    """
    flags = os.O_EXCL if new else os.O_APPEND
    flags |= os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o666), "wb")


def draft_of(path: Path) -> Path:
    """Where `path` is written before it is renamed into place.

    Hidden, and without the suffix of `path`, so that no reader of Parquet files takes it for one.
    """
    return path.with_name(f".{path.name}.tmp")


def sync(path: Path) -> None:
    """Waits until a file, or the list of names in a folder, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Makes a folder and its parents, on the disk when this returns."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync(path.parent)


def write_file(path: Path, data: bytes) -> None:
    """Writes or replaces a file; a reader sees the old one or the new one."""
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
    """Gives a draft folder to fill with files; at the end it becomes `path`, which must be new."""
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
    """Raises if a file or a folder, or something in that, is a symbolic link to elsewhere."""
    for each in (path, *path.glob("*")):
        if each.is_symlink():
            with explained("use", each):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(each))


def remove_folder(path: Path) -> None:
    """Removes a folder; it is gone at once, and never seen half empty."""
    draft = draft_of(path)
    with explained("remove", path):
        _discard(draft)
        os.rename(path, draft)
        _discard(draft)


def sweep(folder: Path) -> None:
    """Removes the drafts that a killed process left in a folder."""
    for draft in folder.glob(".*.tmp"):
        _discard(draft)


def _discard(draft: Path) -> None:
    # A draft is no harm to anyone, so failing to remove it is no reason to stop.
    with contextlib.suppress(OSError):
        if draft.is_dir() and not draft.is_symlink():
            shutil.rmtree(draft, ignore_errors=True)
        else:
            draft.unlink(missing_ok=True)
