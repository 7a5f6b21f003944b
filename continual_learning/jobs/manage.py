"""Begins the jobs of a study, goes on with them, and says how far they are."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path

from continual_learning import extras, plugins
from continual_learning.jobs import launchers, states
from continual_learning.jobs import tree as trees
from continual_learning.jobs.job import Job
from continual_learning.jobs.launchers.base import Launcher
from continual_learning.jobs.running import DEFAULT, Running
from continual_learning.jobs.worker import FAILED
from continual_learning.schema.errors import command
from continual_learning.studies.contents import load_plugins
from continual_learning.studies.launch import REQUEUE

_SECONDS = 1.0  # between two looks at jobs that other processes run


def begin(path: Path, jobs: Sequence[Job], launcher: Launcher, running: Running = DEFAULT) -> int:
    """Begins jobs in the new folder `path`; the exit code as of `resume`."""
    _check(launcher, running)
    tree = trees.create(path, jobs, launchers.to_dict(launcher))
    return _go(tree, launcher, list(tree.jobs), running)


def resume(
    path: Path,
    launcher: Launcher | None = None,
    running: Running = DEFAULT,
    *,
    retry: bool = False,
    within: Path | None = None,
) -> int:
    """Goes on with the jobs that are neither finished nor running.

    Args:
      path: of the tree.
      launcher: None: the one that they were begun with, unless its options run commands.
      running: options of every job.
      retry: whether to go on with those that failed, too.
      within: the sweep that needs their results, if there is one: they are waited for, whoever
        sees to them.

    Returns:
      The exit code: 0 if all jobs are finished, or handed over to others; 75 if some are to
      be gone on with; else 1: some failed.
    """
    load_plugins(path)
    tree = trees.read(path)
    launcher = launcher or launchers.stored(tree.launcher, path)
    _check(launcher, running)
    wanted = ("not begun", "to resume", *(["failed"] if retry else []))
    names = [name for name, state in states.states(tree).items() if state.word in wanted]
    for name in names:
        tree.failure(name).unlink(missing_ok=True)
    return _go(tree, launcher, names, running, within)


def status(path: Path) -> str:
    """How far each job is, and why some failed."""
    return states.describe(trees.read(path))


def _check(launcher: Launcher, running: Running) -> None:
    for sink in running.sinks:
        extras.require(sink)
    launcher.check()


def _go(
    tree: trees.Tree,
    launcher: Launcher,
    names: Sequence[str],
    running: Running,
    within: Path | None = None,
) -> int:
    running = dataclasses.replace(running, plugins=tuple(each.file for each in plugins.loaded()))
    wait = within is not None
    ended = launcher.run(tree, names, running, wait=wait) if names else True
    if not ended and not wait:
        running.tell(f"To see how far they are: {command('status', tree.path)}")
        return 0
    words = _words(tree)
    while ended and wait and "running" in words:  # by whom an earlier command began them
        time.sleep(_SECONDS)
        words = _words(tree)
    running.tell(states.describe(tree, within))
    if words == {"finished"}:
        return 0
    return FAILED if words <= {"finished", "failed"} else REQUEUE


def _words(tree: trees.Tree) -> set[str]:
    """The states that jobs are in now."""
    return {state.word for state in states.states(tree).values()}
