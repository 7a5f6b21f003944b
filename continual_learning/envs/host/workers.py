"""The workers of a pool, their shared memory, and the replacement of a worker that dies."""

from __future__ import annotations

import os
import tempfile
import time
import warnings
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from continual_learning.envs.errors import WorkerError
from continual_learning.envs.host.memory import Memory, size
from continual_learning.envs.host.process import LIMIT, PATIENCE, WorkerLost, WorkerProcess
from continual_learning.envs.host.protocol import HostStream
from continual_learning.envs.host.worker import BEGIN, Setup

try:
    # cloudpickle can send functions of a script or a notebook, which no worker could import.
    import cloudpickle as sending
except ModuleNotFoundError:
    import pickle as sending

MOST_LOST = 10
"""The number of workers that may die before a pool gives up."""


class Workers:
    """Processes that share the environments of a pool.

    Args:
      stream: the tasks.
      places: (seed, number among the seed's environments) for every environment.
      count: the number of processes; by default one per core, and at most one per environment.
      end_invalid: the same as in `Setup`.
      limit: the number of seconds without an answer after which a worker is replaced.

    Attributes:
      memory: the memory that they share.
      lost: the number of workers that died and were replaced so far.
    """

    def __init__(
        self,
        stream: HostStream,
        places: Sequence[tuple[int, int]],
        count: int | None,
        end_invalid: bool = False,
        limit: float = LIMIT,
    ):
        total = len(places)
        try:
            sent = sending.dumps(stream)
        except Exception as error:  # the classes of a user may raise any exception
            raise ValueError(f"Pool: the stream cannot be sent to workers: {error}.") from error
        # A file without a name disappears with the process, however the process ends.
        self._file = tempfile.TemporaryFile(dir=_memory_folder())  # noqa: SIM115
        self._file.truncate(size(stream, total))
        self.memory = Memory.over(self._file.fileno(), stream, total)
        self.lost = 0
        parts = np.array_split(np.arange(total), min(total, count or _cores()))
        self._parts = [slice(int(part[0]), int(part[-1]) + 1) for part in parts]
        self._setups = [
            Setup(sent, total, p.start, tuple(places[p]), end_invalid) for p in self._parts
        ]
        self._limit = limit
        self._processes: list[WorkerProcess] = []
        self._end = weakref.finalize(self, _end, self._processes, self._file)
        for setup in self._setups:
            self._processes.append(WorkerProcess(setup, self._file.fileno(), limit))

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of the processes."""
        return tuple(process.pid for process in self._processes)

    @property
    def closed(self) -> bool:
        """Whether the workers have ended."""
        return not self._end.alive

    def close(self) -> None:
        """End the workers."""
        self._end()

    def ask(self, command: bytes) -> np.ndarray:
        """Send a command to all workers and wait for them; the result is that of `wait`."""
        self.begin(command)
        return self.wait()

    def begin(self, command: bytes) -> None:
        """Send a command to all workers; `wait` waits for its end."""
        for process in self._processes:
            process.send(command)

    def wait(self) -> np.ndarray:
        """Wait for the answers of all workers.

        Returns:
          bool [total], whether the worker of an environment died and was replaced; the environment
          then is at the start of its next episode.

        Raises:
          WorkerError: an environment failed, or too many workers died; all workers have ended.
        """
        cut = np.zeros(len(self.memory.task), bool)
        try:
            for index, process in enumerate(self._processes):
                try:
                    process.receive()
                except WorkerLost as error:
                    self._replace(index, error)
                    cut[self._parts[index]] = True
        except BaseException:
            # Unread answers would confuse the next command, also after Ctrl-C.
            self.close()
            raise
        return cut

    def _replace(self, index: int, error: WorkerLost) -> None:
        self.lost += 1
        if self.lost > MOST_LOST:
            raise WorkerError(f"{self.lost} workers died, the last one with {error}.")
        process = WorkerProcess(self._setups[index], self._file.fileno(), self._limit)
        self._processes[index] = process
        self.memory.episode[self._parts[index]] += 1
        process.send(BEGIN)
        try:
            process.receive()
        except WorkerLost as again:
            raise WorkerError(
                f"A worker died ({error}), and so did its replacement ({again}) before its "
                "environments had begun. Their output on stderr may say why."
            ) from None
        warnings.warn(
            f"A worker died ({error}) and was replaced; the episodes of its "
            f"{len(self._setups[index].places)} environments were cut off.",
            RuntimeWarning,
            stacklevel=2,
        )


def _end(processes: list[WorkerProcess], file: Any) -> None:
    for process in processes:
        process.close()
    until = time.monotonic() + PATIENCE
    for process in processes:
        process.end(max(0.0, until - time.monotonic()))
    file.close()


def _cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory_folder() -> str | None:
    """Return the folder whose files are in memory, or None if there is no such folder."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
