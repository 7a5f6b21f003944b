"""The interface of launchers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from continual_learning.jobs.tree import Tree
from continual_learning.studies.options import RunOptions


class Launcher(Protocol):
    """A launcher starts the worker of every job. Its attributes are its options."""

    def check(self) -> None:
        """Raise an error if it cannot work here; this is called before jobs are written."""
        ...

    def options(self) -> dict[str, Any]:
        """Return its options as plain data: `type(self)(**options)` is the same launcher."""
        ...

    def commands(self) -> dict[str, Any]:
        """Return its options that run commands or lead to another machine.

        They are not taken from a folder, because another person may have made it.
        """
        ...

    def run(
        self, tree: Tree, names: Sequence[str], options: RunOptions, *, wait: bool = False
    ) -> bool:
        """Run jobs of a tree, or hand them over to others.

        Args:
          tree: the jobs.
          names: the names of the jobs to begin or to resume.
          options: the options with which every job is run.
          wait: whether to return only when they have ended, or this process is told to stop.

        Returns:
          Whether the jobs have ended; False if others run them.
        """
        ...
