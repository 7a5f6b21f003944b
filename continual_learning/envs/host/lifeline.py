"""Processes that end with the process that started them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with(parent: int) -> bool:
    """Let the system kill this process when its parent ends.

    Only Linux can do that; on other systems nothing happens. Linux kills the process when the
    thread that started it ends, so the main thread should start it.

    Args:
      parent: the id of the process that started this one.

    Returns:
      Whether the parent is still there.
    """
    if sys.platform != "linux":
        return True
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent  # the parent may have ended before the call above
