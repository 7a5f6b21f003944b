"""Makes the next program while one is in use, because programs take long to compile."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

INTERRUPTED = 128 + 2
"""The exit code of a program that was interrupted (SIGINT)."""

_PATIENCE = 2.0  # seconds


def one_ahead(make: Callable[[str], T], names: Sequence[str]) -> Iterator[T]:
    """Yield `make(name)` of every name in turn, while a thread makes that of the next name.

    If `make` fails in the thread, it is called again in the turn of its name, and only then raises.
    An earlier error would disturb the caller, and some calls fail only because the caller still
    holds the memory that they need.

    Args:
      make: a function that can run in two threads at once.
      names: the names, in order.
    """
    ready: _Making | None = None
    for name, after in itertools.zip_longest(names, names[1:]):
        following = _Making(make, after) if after is not None else None
        yield make(name) if ready is None else ready.result()
        ready = following


def leave(code: int) -> None:
    """End the process now if a thread still makes something, which nobody will use.

    Call this function at the very end of a script, before `sys.exit(code)`; the process then calls
    no functions of `atexit`. A compilation cannot be stopped, and an interpreter that ends during
    one would crash, so it waits unless this function is called. If no thread makes anything,
    nothing happens.

    Args:
      code: the exit code.
    """
    if _under_way():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class _Making(threading.Thread):
    """A thread that begins at once to make something."""

    def __init__(self, make: Callable[[str], Any], name: str):
        super().__init__(name=f"makes {name}", daemon=True)
        self._make, self.of = make, name
        self._made: list[Any] = []
        self.start()

    def run(self) -> None:
        with contextlib.suppress(Exception):  # `result` makes it again and raises
            self._made.append(self._make(self.of))

    def result(self) -> Any:
        """Wait for the result and return it; the thread does not keep it."""
        self.join()
        return self._made.pop() if self._made else self._make(self.of)


def _under_way() -> list[_Making]:
    return [each for each in threading.enumerate() if isinstance(each, _Making)]


@atexit.register
def _wait() -> None:
    """Wait for the threads if nobody called `leave`, because the exit code is not known here.

    An interrupt, whose exit code is known, ends the process at once, whether it ended the script or
    comes during the wait.
    """
    try:
        if isinstance(getattr(sys, "last_value", None), KeyboardInterrupt):
            raise KeyboardInterrupt
        for each in _under_way():
            each.join(_PATIENCE)
            if each.is_alive():
                print(
                    f"Waiting for {each.of}, which is being compiled; that cannot be stopped. "
                    f"Ctrl-C ends the process at once; so does `{__name__}.leave(code)` at the "
                    "end of a script.",
                    file=sys.stderr,
                )
            each.join()
    except KeyboardInterrupt:
        leave(INTERRUPTED)
