"""Runs one job: `python -m continual_learning.experiments.jobs.worker DIR NAME`.

Every launcher starts it, as a process of its own. Its exit code is 0 for a job that is finished (or
that another process is running), 75 for one to go on with, 1 for one that failed.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from continual_learning.experiments import ahead, launch
from continual_learning.experiments.jobs import tree as trees
from continual_learning.experiments.jobs.running import Running
from continual_learning.experiments.jobs.states import claimed
from continual_learning.experiments.storage import manifest
from continual_learning.experiments.storage.files import write_file

FAILED = 1


def work(tree: trees.Tree, name: str, running: Running) -> int:
    """Begins a job, or goes on with it; the exit code."""
    study, folder = tree.job(name).study, tree.folder(name)
    with claimed(tree.lock(name)) as ours:
        if not ours:
            print(f"{name} is being run by another process.")
            return 0
        tree.failure(name).unlink(missing_ok=True)
        options = running.options()
        try:
            if (folder / manifest.STUDY).exists():
                return launch.resume(folder, **options)
            return launch.run(
                study.experiment, study.methods, study.seeds, folder, hyper=study.hyper, **options
            )
        except KeyboardInterrupt:  # a second signal, which does not wait for the chunk
            return launch.REQUEUE
        except Exception:
            text = traceback.format_exc()
            print(text, file=sys.stderr)
            write_file(tree.failure(name), text.encode())
            return FAILED


def main(argv: Sequence[str] | None = None) -> int:
    """Reads the command line and runs the job; the exit code."""
    parser = argparse.ArgumentParser(prog="worker", description="Runs one job of a tree.")
    parser.add_argument("tree", type=Path, metavar="DIR", help="folder of the jobs")
    parser.add_argument("name", metavar="NAME", help="which job")
    parser.add_argument("--parent", type=int, metavar="PID", help="end with this process")
    Running.add(parser)
    args = parser.parse_args(argv)
    if args.parent is not None:
        end_with(args.parent)
    # A scheduler sends it to all processes of a job; whoever started this one says when to stop.
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    code = work(trees.read(args.tree), args.name, Running.parsed(args))
    if argv is None:
        ahead.leave(code)
    return code


def end_with(parent: int) -> None:
    """Kills this process when its parent ends, so that nobody is left who holds the lock.

    Only Linux can do that; elsewhere the process goes on to the end of its job.
    """
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
        if os.getppid() != parent:  # it was faster
            sys.exit(launch.REQUEUE)


if __name__ == "__main__":
    sys.exit(main())
