"""Beginning and resuming the jobs of a study, and their progress."""

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
from continual_learning.jobs.worker import FAILED
from continual_learning.schema.errors import command
from continual_learning.studies.contents import load_plugins
from continual_learning.studies.launch import REQUEUE
from continual_learning.studies.options import DEFAULT, RunOptions

_SECONDS = 1.0  # between two looks at jobs that other processes run


def begin(
    path: Path, jobs: Sequence[Job], launcher: Launcher, options: RunOptions = DEFAULT
) -> int:
    """Begin jobs in a new folder; return the exit code as `resume` does.

    Args:
      path: the new folder.
      jobs: the jobs.
      launcher: the launcher that runs them.
      options: the options with which every job is run.
    """
    _check(launcher, options)
    tree = trees.create(path, jobs, launchers.to_dict(launcher))
    return _go(tree, launcher, list(tree.jobs), options)


def resume(
    path: Path,
    launcher: Launcher | None = None,
    options: RunOptions = DEFAULT,
    *,
    retry: bool = False,
    within: Path | None = None,
) -> int:
    """Resume the jobs that are neither finished nor running.

    Args:
      path: the folder of the jobs.
      launcher: the launcher; None for that of the folder, unless its options run commands.
      options: the options with which every job is run.
      retry: whether to resume failed jobs, too.
      within: the sweep that needs their results, if there is one; the call then waits for the end
        of the jobs with every launcher.

    Returns:
      The exit code: 0 if all jobs are finished or handed over to others, 75 if some are to be
      resumed, else 1, because some failed.
    """
    load_plugins(path)
    tree = trees.read(path)
    launcher = launcher or launchers.stored(tree.launcher, path)
    _check(launcher, options)
    wanted = ("not begun", "to resume", *(["failed"] if retry else []))
    names = [name for name, state in states.states(tree).items() if state.word in wanted]
    for name in names:
        tree.failure(name).unlink(missing_ok=True)
    return _go(tree, launcher, names, options, within)


def status(path: Path) -> str:
    """Return the progress of every job, and why some failed."""
    return states.describe(trees.read(path))


def _check(launcher: Launcher, options: RunOptions) -> None:
    for sink in options.sinks:
        extras.require(sink)
    launcher.check()


def _go(
    tree: trees.Tree,
    launcher: Launcher,
    names: Sequence[str],
    options: RunOptions,
    within: Path | None = None,
) -> int:
    options = dataclasses.replace(options, plugins=tuple(each.file for each in plugins.loaded()))
    wait = within is not None
    ended = launcher.run(tree, names, options, wait=wait) if names else True
    if not ended and not wait:
        options.tell(f"To see how far they are: {command('status', tree.path)}")
        return 0
    words = _words(tree)
    while ended and wait and "running" in words:  # An earlier command may have begun them.
        time.sleep(_SECONDS)
        words = _words(tree)
    options.tell(states.describe(tree, within))
    if words == {"finished"}:
        return 0
    return FAILED if words <= {"finished", "failed"} else REQUEUE


def _words(tree: trees.Tree) -> set[str]:
    """Return the words of the states that jobs are in now."""
    return {state.word for state in states.states(tree).values()}
