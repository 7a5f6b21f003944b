"""Runs one job: `python -m continual_learning.jobs.worker DIR NAME`.

Every launcher starts it, as a process of its own. Its exit code is 0 for a job that is finished (or
that another process is running), 75 for one to go on with, 1 for one that failed.
"""

from __future__ import annotations

import argparse
import dataclasses
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from continual_learning import plugins
from continual_learning.envs.host.lifeline import end_with
from continual_learning.jobs import memory
from continual_learning.jobs import tree as trees
from continual_learning.jobs.running import Running
from continual_learning.jobs.states import claimed
from continual_learning.studies import launch, prefetch
from continual_learning.studies.store.files import write_file

FAILED = 1


def work(tree: trees.Tree, name: str, running: Running) -> int:
    """Begins a job, or goes on with it; the exit code.

    One that runs out of memory becomes two, which are run here one after the other.
    """
    limit = running.time_limit
    end = None if limit is None else time.monotonic() + limit
    waiting, codes = tree.parts(name), [0]
    while waiting and launch.REQUEUE not in codes:
        left = None if end is None else max(0.0, end - time.monotonic())
        code = _work(tree, waiting[0], dataclasses.replace(running, time_limit=left))
        if code is None:
            tree = trees.read(tree.path)
            waiting[:1] = tree.parts(waiting[0])
        else:
            codes.append(code)
            waiting.pop(0)
    return max(codes)


def _work(tree: trees.Tree, name: str, running: Running) -> int | None:
    """The exit code; None if the job was divided."""
    with claimed(tree.lock(name)) as ours:
        if not ours:
            print(f"{name} is being run by another process.")
            return 0
        tree = trees.read(tree.path)
        if name not in tree.jobs:  # by the process that ran it until now
            return None
        try:
            for file in running.plugins:
                plugins.load(file)
            plugins.need(tree.job(name).study.plugins)
            code = memory.attempt(tree, name, **running.options())
            if code is None:
                memory.halve(tree, name)
            return code
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
    if args.parent is not None and not end_with(args.parent):  # nobody is to hold the lock
        return launch.REQUEUE
    # A scheduler sends it to all processes of a job; whoever started this one says when to stop.
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    code = work(trees.read(args.tree), args.name, Running.parsed(args))
    if argv is None:
        prefetch.leave(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
