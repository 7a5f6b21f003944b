"""The process of a job: started, stopped, and its end noted where it could not do so itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping

from continual_learning.jobs.running import Running
from continual_learning.jobs.tree import Tree
from continual_learning.studies.launch import REQUEUE
from continual_learning.studies.store.files import write_file, writing

_WORKER = "continual_learning.jobs.worker"
_LINES = 20  # of a log that are shown


def start(
    tree: Tree, name: str, running: Running, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Starts the worker of a job, which ends with this process; what it prints goes to its log.

    Args:
      tree: the jobs.
      name: which one.
      running: options.
      environment: variables beside those of this process.
    """
    words = [sys.executable, "-m", _WORKER, str(tree.path.resolve()), name]
    words += ["--parent", str(os.getpid()), *running.words()]
    with writing(tree.log(name), new=False) as log:
        return subprocess.Popen(
            words,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # Ctrl-C reaches all processes of a terminal; a second signal would not wait for the
            # end of the chunk.
            start_new_session=True,
        )


def note_end(tree: Tree, name: str, code: int) -> None:
    """Notes as a failure what a worker could not note itself: that it was killed, or never began.

    Args:
      tree: the jobs.
      name: which one.
      code: as `subprocess` has it, negative for a signal.
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
