"""The process of a job: its start, and the note of its end if it could not write one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping

from continual_learning.jobs.tree import Tree
from continual_learning.studies.launch import REQUEUE
from continual_learning.studies.options import RunOptions
from continual_learning.studies.store.files import write_file, writing

_WORKER = "continual_learning.jobs.worker"
_LINES = 20  # lines of a log that are shown


def start(
    tree: Tree, name: str, options: RunOptions, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start the worker of a job, which ends with this process and prints to its log.

    Args:
      tree: the jobs.
      name: the name of the job.
      options: the options with which it is run.
      environment: environment variables in addition to those of this process.
    """
    words = [sys.executable, "-m", _WORKER, str(tree.path.resolve()), name]
    words += ["--parent", str(os.getpid()), "--options", options.dumps()]
    with writing(tree.log(name), new=False) as log:
        return subprocess.Popen(
            words,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # Ctrl-C reaches all processes of a terminal, and a second signal would not wait for
            # the end of the chunk.
            start_new_session=True,
        )


def note_end(tree: Tree, name: str, code: int) -> None:
    """Write the failure of a worker that could not write it, because it was killed or never began.

    Args:
      tree: the jobs.
      name: the name of the job.
      code: the exit code of `subprocess`, negative for a signal.
    """
    if code in (0, REQUEUE):
        return
    if tree.failure(name).exists():
        return
    log = tree.log(name).read_text("utf-8", errors="replace").splitlines()[-_LINES:]
    how = f"was ended by {_signal(-code)}" if code < 0 else f"ended with exit code {code}"
    hint = " Was there too little memory?" if -code == signal.SIGKILL else ""
    text = "\n".join(["The end of its log:", *log, "", f"The process {how}.{hint}", ""])
    write_file(tree.failure(name), text.encode())


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
