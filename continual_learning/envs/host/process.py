"""A worker as its pool sees it: a process to start, to ask, to wait for and to end."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
from multiprocessing.connection import Connection

from continual_learning.envs.errors import WorkerError
from continual_learning.envs.host.worker import Setup

CODE = "from continual_learning.envs.host.worker import main; main()"
# Workers share the cores among them; threads of one would only get in the way of the others.
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("MKL", "OMP", "OPENBLAS")}
PATIENCE = 0.5
"""Seconds between looks at whether a worker that says nothing is alive."""


class WorkerLost(Exception):
    """A worker died without a word; the message says how."""


class WorkerProcess:
    """Starts a worker.

    It is a fresh interpreter: a fork of a process that runs JAX may hang, and what
    `multiprocessing` starts would import the user's program again, and JAX with it.

    Args:
      setup: which environments are its own.
      file: descriptor of the shared memory.
    """

    def __init__(self, setup: Setup, file: int):
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", CODE, str(theirs.fileno()), str(file)],
                pass_fds=(theirs.fileno(), file),
                stdin=subprocess.DEVNULL,
                env={**os.environ, **ONE_THREAD, "PYTHONPATH": path},
            )
        self._connection = Connection(ours.detach())
        self.send(pickle.dumps(tuple(setup)))

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    def send(self, message: bytes) -> None:
        """Asks for something; `receive` tells if nobody listened."""
        with contextlib.suppress(OSError):
            self._connection.send_bytes(message)

    def receive(self) -> None:
        """Waits until it is done.

        Raises:
          WorkerError: it failed, with its traceback.
          WorkerLost: it died.
        """
        try:
            # A child of the worker may hold the other end of the socket open.
            while not self._connection.poll(PATIENCE):
                if self._process.poll() is not None and not self._connection.poll():
                    raise EOFError
            said = self._connection.recv_bytes()
        except (EOFError, OSError):
            self.end()
            raise WorkerLost(_how(self._process.returncode)) from None
        if said:
            raise WorkerError(f"An environment failed in a worker.\n{said.decode()}")

    def close(self) -> None:
        """Lets the worker end by itself; does not wait."""
        self._connection.close()

    def end(self, seconds: float = PATIENCE) -> None:
        """Waits until it has ended, for a little while; then makes it."""
        self.close()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _how(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
