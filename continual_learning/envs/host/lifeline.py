"""Processes that end with the one that started them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with(parent: int) -> bool:
    """Has this process killed when its parent ends; whether the parent is still there.

    Only Linux can do that; elsewhere nothing happens. There it is the end of the thread that
    started this process that counts: it should be the main one.

    Args:
      parent: the number of the process that started this one.
    """
    if sys.platform != "linux":
        return True
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent  # it may have been faster
