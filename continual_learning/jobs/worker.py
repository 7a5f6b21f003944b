"""Runs one job: `python -m continual_learning.jobs.worker DIR NAME`.

Every launcher starts it, as a process of its own. Its exit code is 0 for a job that is finished (or
that another process is running), 75 for one to go on with, 1 for one that failed.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from continual_learning import plugins
from continual_learning.envs.host.lifeline import end_with
from continual_learning.jobs import tree as trees
from continual_learning.jobs.running import Running
from continual_learning.jobs.states import claimed
from continual_learning.schema.errors import StudyError
from continual_learning.studies import launch, prefetch
from continual_learning.studies.store import manifest
from continual_learning.studies.store.files import write_file

FAILED = 1


def work(tree: trees.Tree, name: str, running: Running) -> int:
    """Begin a job, or go on with it, unless another process runs it; return the exit code."""
    with claimed(tree.lock(name)) as ours:
        if not ours:
            print(f"{name} is being run by another process.")
            return 0
        try:
            running.load_plugins()
            plugins.need(tree.job(name).study.plugins)
            return attempt(tree, name, **running.options())
        except KeyboardInterrupt:  # a second signal, which does not wait for the chunk
            return launch.REQUEUE
        except Exception:
            text = traceback.format_exc()
            print(text, file=sys.stderr)
            write_file(tree.failure(name), text.encode())
            return FAILED


def attempt(tree: trees.Tree, name: str, **running: Any) -> int:
    """Begin a job, or go on with it, in this process; return the exit code.

    Args:
      tree: the jobs.
      name: which one.
      **running: options of `launch.run`.
    """
    study, folder = tree.job(name).study, tree.folder(name)
    tree.failure(name).unlink(missing_ok=True)
    if (folder / manifest.STUDY).is_file():
        return launch.resume(folder, chunks=tree.chunks, **running)
    return launch.run(
        study.experiment,
        study.methods,
        study.seeds,
        folder,
        hyper=study.hyper,
        chunks=tree.chunks,
        **running,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Reads the command line and runs the job; the exit code."""
    parser = argparse.ArgumentParser(prog="worker", description="Runs one job of a tree.")
    parser.add_argument("tree", type=Path, metavar="DIR", help="folder of the jobs")
    parser.add_argument("name", metavar="NAME", help="which job")
    parser.add_argument("--parent", type=int, metavar="PID", help="end with this process")
    Running.add(parser)
    args = parser.parse_args(argv)
    if args.parent is not None and not end_with(args.parent):  # nobody is to hold the lock
        return launch.REQUEUE
    # A scheduler sends it to all processes of a job; whoever started this one says when to stop.
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    running = Running.parsed(args)
    with contextlib.suppress(StudyError):  # which `work` keeps as the job's failure
        running.load_plugins()
    code = work(trees.read(args.tree), args.name, running)
    if argv is None:
        prefetch.leave(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
