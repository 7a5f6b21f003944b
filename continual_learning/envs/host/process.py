"""A worker as its pool sees it: a process to start, to ask, to wait for and to end."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import warnings

from continual_learning.envs.errors import WorkerError
from continual_learning.envs.host.worker import BEGIN, FAILED, RESTORE, SAVE, STEP, Setup

CODE = "from continual_learning.envs.host.worker import main; main()"
# Workers share the cores among them; threads of one would only get in the way of the others.
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("MKL", "OMP", "OPENBLAS")}
PATIENCE = 0.5
"""Seconds between looks at whether a worker that says nothing is alive."""
REMINDER = 30.0
"""Seconds without an answer after which it is said who is waited for."""
LIMIT = 600.0
"""Seconds without an answer after which a worker is taken for lost."""

_WORDS = {BEGIN: "begin an episode of", STEP: "step", SAVE: "save", RESTORE: "restore"}


class WorkerLost(Exception):
    """A worker died without a word, or does not answer; the message says how."""


class WorkerProcess:
    """Starts a worker.

    It is a fresh interpreter: a fork of a process that runs JAX may hang, and what
    `multiprocessing` starts would import the user's program again, and JAX with it.

    Args:
      setup: which environments are its own.
      file: descriptor of the shared memory.
      limit: seconds without an answer after which it is lost.
    """

    def __init__(self, setup: Setup, file: int, limit: float = LIMIT):
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", CODE, str(theirs.fileno()), str(file), _lifeline()],
                pass_fds=(theirs.fileno(), file),
                stdin=subprocess.DEVNULL,
                env={**os.environ, **ONE_THREAD, "PYTHONPATH": path},
            )
        self._socket, self._limit = ours, limit
        self._places, self._asked = setup.places, BEGIN
        self.send(pickle.dumps(tuple(setup)))  # without a time limit: it may be large
        self._socket.settimeout(PATIENCE)

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    def send(self, message: bytes) -> None:
        """Asks for something; `receive` tells if nobody listened."""
        self._asked = message
        with contextlib.suppress(OSError):
            self._socket.sendall(message)

    def receive(self) -> None:
        """Waits until it is done.

        Raises:
          WorkerError: it failed, with its traceback.
          WorkerLost: it died, or did not answer in time and was killed.
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
        looks = 0  # not the clock: this process may be stopped for a while, and the worker with it
        while True:
            try:
                return self._socket.recv(1)
            except TimeoutError:
                # A child of the worker may hold the other end open.
                if self._process.poll() is not None:
                    return b""
            looks += 1
            waited = looks * PATIENCE
            if waited >= self._limit:
                self._process.kill()
                self.end()
                raise WorkerLost(f"no answer for {waited:g} s, when it was to {self._task}")
            if looks == round(REMINDER / PATIENCE):
                warnings.warn(
                    f"A worker (process {self.pid}) has not answered for {waited:g} s: it is to "
                    f"{self._task}. After {self._limit:g} s it is replaced.",
                    RuntimeWarning,
                    stacklevel=5,
                )

    @property
    def _task(self) -> str:
        """What it was asked for, in words."""
        (seed, number), count = self._places[0], len(self._places)
        more = "" if count == 1 else f" and the {count - 1} after it"
        return f"{_WORDS[self._asked]} environment {number} of seed {seed}{more}"

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


def _lifeline() -> str:
    """The process with which a worker ends; 0 for none, where that of a thread would be meant."""
    alone = threading.current_thread() is threading.main_thread()
    return str(os.getpid() if alone else 0)


def _how(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
