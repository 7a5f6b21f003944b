"""What a launcher is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from continual_learning.jobs.running import Running
from continual_learning.jobs.tree import Tree


class Launcher(Protocol):
    """Starts the worker of every job somewhere. Its attributes are its options."""

    def check(self) -> None:
        """Raises if it cannot work here; called before there is a tree."""
        ...

    def options(self) -> dict[str, Any]:
        """Its options as plain data: `type(self)(**options)` is the same launcher."""
        ...

    def commands(self) -> dict[str, Any]:
        """Its options that run something, or lead to another machine.

        They are not taken from a folder, which may be somebody else's.
        """
        ...

    def run(
        self, tree: Tree, names: Sequence[str], running: Running, *, wait: bool = False
    ) -> bool:
        """Runs jobs of a tree, or hands them over.

        Args:
          tree: the jobs.
          names: those to begin or to go on with.
          running: options of every job.
          wait: whether to return only when they have ended, or this process is told to stop.

        Returns:
          Whether they have ended; False if others see to that.
        """
        ...
