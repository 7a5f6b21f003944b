"""A worker as its pool sees it: a process to start, to ask, to wait for and to end."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys

from continual_learning.envs.errors import WorkerError
from continual_learning.envs.host.worker import FAILED, Setup

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
        self._socket = ours
        self.send(pickle.dumps(tuple(setup)))  # without a time limit: it may be large
        self._socket.settimeout(PATIENCE)

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    def send(self, message: bytes) -> None:
        """Asks for something; `receive` tells if nobody listened."""
        with contextlib.suppress(OSError):
            self._socket.sendall(message)

    def receive(self) -> None:
        """Waits until it is done.

        Raises:
          WorkerError: it failed, with its traceback.
          WorkerLost: it died.
        """
        try:
            said = self._answer()
        except OSError:
            said = b""
        if said == FAILED:
            self._socket.settimeout(None)
            with self._socket.makefile("rb") as told:
                raise WorkerError(f"An environment failed in a worker.\n{told.read().decode()}")
        if not said:
            self.end()
            raise WorkerLost(_how(self._process.returncode))

    def _answer(self) -> bytes:
        """A byte, or none when there is nobody at the other end."""
        while True:
            try:
                return self._socket.recv(1)
            except TimeoutError:
                # A child of the worker may hold the other end open.
                if self._process.poll() is not None:
                    return b""

    def close(self) -> None:
        """Lets the worker end by itself; does not wait."""
        self._socket.close()

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
