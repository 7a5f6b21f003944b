"""A worker: a process that steps some environments of a pool. It never imports JAX."""

from __future__ import annotations

import contextlib
import pickle
import signal
import socket
import sys
import traceback
from typing import Any, NamedTuple

import numpy as np

from continual_learning.envs.host.memory import Memory
from continual_learning.envs.host.protocol import HostStream

# What a pool asks for, a byte; arguments and results are in the memory.
BEGIN, STEP, SAVE, RESTORE = b"b", b"s", b"g", b"r"
# The answer; a traceback follows a failure.
DONE, FAILED = b".", b"!"


class Setup(NamedTuple):
    """What a worker is told at its start.

    Attributes:
      stream: pickled `HostStream`.
      total: environments of the whole pool.
      first: number of the worker's first environment among them.
      places: (seed, number among the seed's environments) of each of its own.
    """

    stream: bytes
    total: int
    first: int
    places: tuple[tuple[int, int], ...]


def episode_seed(seed: int, environment: int, task: int, episode: int) -> int:
    """What an episode depends on, as one number that any generator takes (31 bits)."""
    return int(np.random.SeedSequence((seed, environment, task, episode)).generate_state(1)[0]) >> 1


class Worker:
    """Does what a pool asks for.

    Args:
      setup: which environments are its own.
      file: descriptor of the shared memory.
    """

    def __init__(self, setup: Setup, file: int):
        self._stream: HostStream = pickle.loads(setup.stream)
        self._places = setup.places
        mine = slice(setup.first, setup.first + len(setup.places))
        whole = Memory.over(file, self._stream, setup.total)
        self._memory = Memory(*(array[mine] for array in whole))
        self._environments: list[Any] = [None] * len(setup.places)
        self._made = [-1] * len(setup.places)

    def run(self, command: bytes) -> None:
        """Answers one command for all its environments."""
        action = {
            BEGIN: self._begin,
            STEP: self._step,
            SAVE: self._save,
            RESTORE: self._restore,
        }[command]
        for index in range(len(self._places)):
            action(index)

    def _begin(self, index: int) -> None:
        environment = self._environment(index)
        seed, number = self._places[index]
        task, episode = int(self._memory.task[index]), int(self._memory.episode[index])
        seed = episode_seed(seed, number, task, episode)
        self._memory.observation[index] = environment.reset(seed)

    def _step(self, index: int) -> None:
        memory = self._memory
        reached = self._environments[index].step(memory.action[index].copy())
        memory.reached[index] = memory.observation[index] = reached.observation
        memory.reward[index] = reached.reward
        memory.metrics[index] = [reached.metrics[name] for name in self._stream.metrics]
        memory.terminated[index] = reached.terminated
        memory.truncated[index] = reached.truncated and not reached.terminated
        if reached.terminated or reached.truncated:
            memory.episode[index] += 1
            self._begin(index)

    def _save(self, index: int) -> None:
        state = np.asarray(self._environments[index].get_state(), np.float64)
        if state.ndim != 1 or state.size > self._stream.state_size:
            raise ValueError(
                f"get_state gave an array {list(state.shape)}, the stream promised at most "
                f"[{self._stream.state_size}] (state_size)."
            )
        self._memory.state[index] = 0.0
        self._memory.state[index, : state.size] = state

    def _restore(self, index: int) -> None:
        self._environment(index).set_state(self._memory.state[index].copy())

    def _environment(self, index: int) -> Any:
        """That of the task it is to be in, made if it is not there yet."""
        task = int(self._memory.task[index]) % len(self._stream.names)
        if self._made[index] != task:
            if self._environments[index] is not None:
                self._environments[index].close()
            self._environments[index] = self._stream.make(task, self._places[index][0])
            self._made[index] = task
        return self._environments[index]


def main() -> None:
    """Serves the pool at the socket `argv[1]` with the memory `argv[2]` until it is gone."""
    # Ctrl-C reaches the whole group; when to stop is the pool's affair.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as pool, pool.makefile("rb") as asked:
        try:
            worker = Worker(Setup(*pickle.load(asked)), int(sys.argv[2]))
            while command := asked.read(1):
                worker.run(command)
                pool.sendall(DONE)
        except Exception:
            with contextlib.suppress(OSError):  # there may be no pool any more
                pool.sendall(FAILED + traceback.format_exc().encode())
                pool.shutdown(socket.SHUT_RDWR)
