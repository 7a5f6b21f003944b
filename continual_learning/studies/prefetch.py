"""Makes what comes next while something else is in use: programs, which take long to compile."""

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
"""Exit code of a program that was interrupted (SIGINT)."""

_PATIENCE = 2.0  # seconds


def one_ahead(make: Callable[[str], T], names: Sequence[str]) -> Iterator[T]:
    """Yields `make` of every name in turn, while that of the next one is under way in a thread.

    What fails in a thread is made again in its turn, and only then raises: before, it would disturb
    what is in use; and some of it fails only for lack of the memory that this has.

    Args:
      make: must be able to run beside itself.
      names: what to make.
    """
    ready: _Making | None = None
    for name, after in itertools.zip_longest(names, names[1:]):
        following = _Making(make, after) if after is not None else None
        yield make(name) if ready is None else ready.result()
        ready = following


def leave(code: int) -> None:
    """Ends the process now if something is still being made, which nobody will use.

    To be called at the very end of a script, before `sys.exit(code)`; functions of `atexit` are not
    called then. A compilation cannot be stopped, and an interpreter that ends while one is under
    way would crash: without this, it waits. If nothing is being made, nothing happens.

    Args:
      code: exit code.
    """
    if _under_way():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class _Making(threading.Thread):
    """Makes something, in a thread that begins at once."""

    def __init__(self, make: Callable[[str], Any], name: str):
        super().__init__(name=f"makes {name}", daemon=True)
        self._make, self.of = make, name
        self._made: list[Any] = []
        self.start()

    def run(self) -> None:
        with contextlib.suppress(Exception):  # it is raised in its turn
            self._made.append(self._make(self.of))

    def result(self) -> Any:
        """What was made; not kept here."""
        self.join()
        return self._made.pop() if self._made else self._make(self.of)


def _under_way() -> list[_Making]:
    return [each for each in threading.enumerate() if isinstance(each, _Making)]


@atexit.register
def _wait() -> None:
    """Where nobody called `leave`, with an exit code that is not known here: waits.

    An interrupt, whose exit code is known, ends it: the one that ended the script, or one that
    comes meanwhile.
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
