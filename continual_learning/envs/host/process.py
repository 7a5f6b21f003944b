"""A worker as its pool sees it: a process that the pool starts, commands, awaits and ends."""

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
# The workers share the cores; the threads of one worker would only slow down the others.
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("MKL", "OMP", "OPENBLAS")}
PATIENCE = 0.5
"""Seconds between two checks that a silent worker is alive."""
REMINDER = 30.0
"""Seconds without an answer after which a warning names the worker."""
LIMIT = 600.0
"""Seconds without an answer after which a worker counts as lost."""

_WORDS = {BEGIN: "begin an episode of", STEP: "step", SAVE: "save", RESTORE: "restore"}


class WorkerLost(Exception):
    """A worker died without an answer, or does not answer; the message describes how."""


class WorkerProcess:
    """The process of a worker.

    It is a fresh interpreter, because a fork of a process that runs JAX may hang, and a process of
    `multiprocessing` would import the user's program again, and JAX with it.

    Args:
      setup: the settings of the worker.
      file: the descriptor of the shared memory.
      limit: the number of seconds without an answer after which the worker counts as lost.
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
        self.send(pickle.dumps(tuple(setup)))  # without a time limit, since it may be large
        self._socket.settimeout(PATIENCE)

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def send(self, message: bytes) -> None:
        """Send a command; `receive` raises an error if the worker is gone."""
        self._asked = message
        with contextlib.suppress(OSError):
            self._socket.sendall(message)

    def receive(self) -> None:
        """Wait until the worker has executed the command.

        Raises:
          WorkerError: the command failed; the message has the traceback.
          WorkerLost: the worker died, or did not answer in time and was killed.
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
        """Return the byte that the worker answers, or no byte if the worker is gone."""
        # Count the checks, not the time: this process and the worker may be stopped for a while.
        looks = 0
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
                raise WorkerLost(f"no answer for {waited:g} s, when it had to {self._task}")
            if looks == round(REMINDER / PATIENCE):
                warnings.warn(
                    f"A worker (process {self.pid}) has not answered for {waited:g} s: it has to "
                    f"{self._task}. After {self._limit:g} s it will be replaced.",
                    RuntimeWarning,
                    stacklevel=5,
                )

    @property
    def _task(self) -> str:
        """The last command, in words."""
        (seed, number), count = self._places[0], len(self._places)
        more = "" if count == 1 else f" and the {count - 1} after it"
        return f"{_WORDS[self._asked]} environment {number} of seed {seed}{more}"

    def close(self) -> None:
        """Let the worker end by itself, without waiting for it."""
        self._socket.close()

    def end(self, seconds: float = PATIENCE) -> None:
        """Wait for the end of the worker, and kill it after that many seconds."""
        self.close()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _lifeline() -> str:
    """Return the id of the process with which a worker shall end.

    It is 0 in a thread, since the worker would end with the thread and not with the process.
    """
    alone = threading.current_thread() is threading.main_thread()
    return str(os.getpid() if alone else 0)


def _how(code: int) -> str:
    """Describe in words how a process ended."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
