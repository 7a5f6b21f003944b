"""The worker of one job: `python -m continual_learning.jobs.worker DIR NAME`.

Every launcher starts it as a process of its own. Its exit code is 0 for a job that is finished (or
that another process is running), 75 for a job to resume, and 1 for a job that failed.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from continual_learning import plugins
from continual_learning.envs.host.lifeline import end_with
from continual_learning.jobs import tree as trees
from continual_learning.jobs.states import claimed
from continual_learning.schema.errors import StudyError
from continual_learning.studies import launch, prefetch
from continual_learning.studies.options import DEFAULT, RunOptions
from continual_learning.studies.store import manifest
from continual_learning.studies.store.files import write_file

FAILED = 1


def work(tree: trees.Tree, name: str, options: RunOptions) -> int:
    """Begin or resume a job, unless another process runs it; return the exit code.

    Args:
      tree: the jobs.
      name: the name of the job.
      options: the options with which it is run.
    """
    with claimed(tree.lock(name)) as ours:
        if not ours:
            print(f"{name} is being run by another process.")
            return 0
        try:
            options.load_plugins()
            plugins.need(tree.job(name).study.plugins)
            return attempt(tree, name, dataclasses.replace(options, quiet=False))
        except KeyboardInterrupt:  # A second signal does not wait for the chunk.
            return launch.REQUEUE
        except Exception:
            text = traceback.format_exc()
            print(text, file=sys.stderr)
            write_file(tree.failure(name), text.encode())
            return FAILED


def attempt(tree: trees.Tree, name: str, options: RunOptions) -> int:
    """Begin or resume a job in this process; return the exit code.

    Args:
      tree: the jobs.
      name: the name of the job.
      options: the options with which it is run, except for its chunks, which the tree defines.
    """
    study, folder = tree.job(name).study, tree.folder(name)
    options = dataclasses.replace(options, chunks=tree.chunks)
    tree.failure(name).unlink(missing_ok=True)
    if manifest.is_study(folder):
        return launch.resume(folder, options)
    parts = study.experiment, study.methods, study.seeds
    return launch.run(*parts, folder, options, hyper=study.hyper)


def main(argv: Sequence[str] | None = None) -> int:
    """Read the command line and run the job; return the exit code."""
    parser = argparse.ArgumentParser(prog="worker", description="Runs one job of a tree.")
    parser.add_argument("tree", type=Path, metavar="DIR", help="folder of the jobs")
    parser.add_argument("name", metavar="NAME", help="name of the job")
    parser.add_argument("--parent", type=int, metavar="PID", help="end with this process")
    parser.add_argument("--options", type=RunOptions.loads, default=DEFAULT, metavar="JSON")
    args = parser.parse_args(argv)
    if args.parent is not None and not end_with(args.parent):  # An orphan must not hold the lock.
        return launch.REQUEUE
    # A scheduler sends SIGUSR2 to all processes of a job, but the parent stops this one.
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    with contextlib.suppress(StudyError):  # `work` records the error as the job's failure.
        args.options.load_plugins()
    code = work(trees.read(args.tree), args.name, args.options)
    if argv is None:
        prefetch.leave(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
