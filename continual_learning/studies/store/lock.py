"""A lock that allows one writer at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
from pathlib import Path

from continual_learning.studies.store.files import MachineError, explained

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Lock:
    """An exclusive lock on a file; the system releases it when the process ends, however it ends.

    Args:
      path: the file, which is made if it does not exist and is never removed.
    """

    def __init__(self, path: Path):
        with explained("lock", path):
            descriptor = os.open(path, _FLAGS, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
                os.close(descriptor)
                raise MachineError(
                    f"{path.parent} is being written by another process "
                    f"({holder or 'unknown'}). Wait until it has ended, or stop it; "
                    "reading the study is possible at any time."
                ) from None
            except BaseException:
                os.close(descriptor)
                raise
        self._descriptor: int | None = descriptor
        with contextlib.suppress(OSError):  # this note is for people, so a full disk may prevent it
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {platform.node()}\n".encode(), 0)

    @property
    def held(self) -> bool:
        """Whether the lock has not been released."""
        return self._descriptor is not None

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
