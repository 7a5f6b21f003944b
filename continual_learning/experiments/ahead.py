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


def one_ahead(make: Callable[[str], T], names: Sequence[str], threads: bool = True) -> Iterator[T]:
    """Yields `make` of every name in turn, while that of the next one is under way in a thread.

    What fails in a thread is made again in its turn, and only then raises: before, it would disturb
    what is in use; and some of it fails only for lack of the memory that this has.

    Args:
      make: must be able to run beside itself.
      names: what to make.
      threads: without, everything is made in its turn.
    """
    ready: _Making | None = None
    for name, after in itertools.zip_longest(names, names[1:]):
        following = _Making(make, after) if threads and after is not None else None
        yield make(name) if ready is None else ready.result()
        ready = following


def leave(code: int) -> None:
    """Ends the process now if something is still being made, which nobody will use.

    To be called at the very end, in a process that is one's own. A compilation cannot be stopped,
    and an interpreter that ends while one is under way would crash. Otherwise nothing happens.

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
        self._make, self._of = make, name
        self._made: list[Any] = []
        self.start()

    def run(self) -> None:
        with contextlib.suppress(Exception):  # it is raised in its turn
            self._made.append(self._make(self._of))

    def result(self) -> Any:
        """What was made; not kept here."""
        self.join()
        return self._made.pop() if self._made else self._make(self._of)


def _under_way() -> list[_Making]:
    return [each for each in threading.enumerate() if isinstance(each, _Making)]


@atexit.register
def _wait() -> None:
    """Where nobody called `leave`: slow, but without a crash."""
    for each in _under_way():
        each.join()
