"""A worker: a process that steps some environments of a pool and never imports JAX."""

from __future__ import annotations

import contextlib
import pickle
import signal
import socket
import sys
import traceback
from typing import Any, NamedTuple

import numpy as np

from continual_learning.envs.host.lifeline import end_with
from continual_learning.envs.host.memory import Memory
from continual_learning.envs.host.protocol import HostStream

# A pool sends its command as a byte; arguments and results are in the shared memory.
BEGIN, STEP, SAVE, RESTORE = b"b", b"s", b"g", b"r"
# A worker answers with a byte; a traceback follows a failure.
DONE, FAILED = b".", b"!"


class Setup(NamedTuple):
    """The settings that a worker receives at its start.

    Attributes:
      stream: the pickled `HostStream`.
      total: the number of environments of the whole pool.
      first: the number of the worker's first environment among them.
      places: (seed, number among the seed's environments) for every environment of the worker.
      end_invalid: whether a step whose numbers are not finite ends its episode; otherwise it is an
        error.
    """

    stream: bytes
    total: int
    first: int
    places: tuple[tuple[int, int], ...]
    end_invalid: bool = False


def episode_seed(seed: int, environment: int, task: int, episode: int) -> int:
    """Return the seed of an episode, a number of 31 bits, which any generator takes.

    Args:
      seed: the seed of the training run.
      environment: the number of the environment among those of the seed.
      task: the number of the task.
      episode: the number of the episode in the task.
    """
    return int(np.random.SeedSequence((seed, environment, task, episode)).generate_state(1)[0]) >> 1


class Worker:
    """Executes the commands of a pool.

    Args:
      setup: the settings, which name the environments of the worker.
      file: the descriptor of the shared memory.
    """

    def __init__(self, setup: Setup, file: int):
        self._stream: HostStream = pickle.loads(setup.stream)
        self._places, self._end_invalid = setup.places, setup.end_invalid
        mine = slice(setup.first, setup.first + len(setup.places))
        whole = Memory.over(file, self._stream, setup.total)
        self._memory = Memory(*(array[mine] for array in whole))
        self._environments: list[Any] = [None] * len(setup.places)
        self._made = [-1] * len(setup.places)

    def run(self, command: bytes) -> None:
        """Execute a command for all environments of the worker."""
        action = {
            BEGIN: self._begin,
            STEP: self._step,
            SAVE: self._save,
            RESTORE: self._restore,
        }[command]
        for index in range(len(self._places)):
            self._resetting = False
            try:
                action(index)
            except Exception as error:
                error.add_note(self._told(index))
                raise

    def _told(self, index: int) -> str:
        """Return a sentence that names an environment and its step, for a traceback."""
        seed, number = self._places[index]
        task, episode = self._memory.task[index], self._memory.episode[index]
        name = self._stream.names[int(task) % len(self._stream.names)]
        when = "reset" if self._resetting else f"step {self._memory.length[index] + 1}"
        return f"It is {name}, environment {number} of seed {seed}, {when} of episode {episode}."

    def _begin(self, index: int) -> None:
        environment = self._environment(index)
        seed, number = self._places[index]
        task, episode = int(self._memory.task[index]), int(self._memory.episode[index])
        seed = episode_seed(seed, number, task, episode)
        self._resetting = True
        self._take("observation", index, environment.reset(seed))
        if not np.isfinite(self._memory.observation[index]).all():
            raise ValueError(f"The first observation is {self._memory.observation[index]}.")

    def _step(self, index: int) -> None:
        memory = self._memory
        reached = self._environments[index].step(memory.action[index].copy())
        metrics = [reached.metrics[name] for name in self._stream.metrics]
        for name in ("reward", "terminated", "truncated"):
            self._take(name, index, getattr(reached, name))
        self._take("metrics", index, metrics)
        self._take("reached", index, reached.observation)
        finite = np.isfinite(memory.reward[index]) and np.isfinite(memory.reached[index]).all()
        memory.invalid[index] = not finite
        if not finite:
            self._cut(index)
        memory.observation[index] = memory.reached[index]
        memory.truncated[index] &= ~memory.terminated[index]
        if memory.terminated[index] or memory.truncated[index]:
            memory.episode[index] += 1
            self._begin(index)

    def _cut(self, index: int) -> None:
        """End an episode before the step whose numbers are not finite."""
        memory = self._memory
        if not self._end_invalid:
            raise ValueError(
                f"The reward {memory.reward[index]} or the observation {memory.reached[index]} is "
                "not finite. Repair the environment, or let such a step end the episode: "
                'nonfinite = "end".'
            )
        memory.reached[index] = memory.observation[index]
        memory.reward[index] = 0.0
        memory.metrics[index] = 0.0
        memory.terminated[index], memory.truncated[index] = False, True

    def _take(self, name: str, index: int, value: Any) -> None:
        """Write a result of an environment into the memory.

        Args:
          name: the array of the memory.
          index: the environment.
          value: the result.

        Raises:
          ValueError: the result has another shape or type than the array.
        """
        place = getattr(self._memory, name)
        try:
            given = np.asarray(value)
        except ValueError:  # lists of different lengths
            given = np.asarray(None)
        if given.dtype.kind not in "biuf" or given.shape != place.shape[1:]:
            expected = f"numbers {list(place.shape[1:])}" if place.ndim > 1 else "a number"
            told = "observation" if name == "reached" else name
            got = (
                f"{given.dtype} {list(given.shape)}" if given.dtype.kind in "biuf" else repr(value)
            )
            raise ValueError(f"The {told} must be {expected}, got {got:.200}.")
        with np.errstate(over="ignore"):  # the number becomes infinite, and `_step` reports it
            place[index] = given

    def _save(self, index: int) -> None:
        state = np.asarray(self._environments[index].get_state(), np.float64)
        if state.ndim != 1 or state.size > self._stream.state_size:
            raise ValueError(
                f"get_state returned an array {list(state.shape)}, but the stream promised at most "
                f"[{self._stream.state_size}] (state_size)."
            )
        self._memory.state[index] = 0.0
        self._memory.state[index, : state.size] = state

    def _restore(self, index: int) -> None:
        self._environment(index).set_state(self._memory.state[index].copy())

    def _environment(self, index: int) -> Any:
        """Return the environment `index` for its current task; make it if necessary."""
        task = int(self._memory.task[index]) % len(self._stream.names)
        if self._made[index] != task:
            if self._environments[index] is not None:
                self._environments[index].close()
            self._environments[index] = self._stream.make(task, *self._places[index])
            self._made[index] = task
        return self._environments[index]


def main() -> None:
    """Serve the pool at the socket `argv[1]` with the memory `argv[2]` until the pool is gone.

    An environment that never returns would not notice the end of the pool, so the worker also ends
    with the process `argv[3]`.
    """
    parent = int(sys.argv[3])
    if parent and not end_with(parent):
        return
    # Ctrl-C reaches the whole process group, but the pool decides when its workers stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as pool, pool.makefile("rb") as asked:
        try:
            worker = Worker(Setup(*pickle.load(asked)), int(sys.argv[2]))
            while command := asked.read(1):
                worker.run(command)
                pool.sendall(DONE)
        except Exception:
            with contextlib.suppress(OSError):  # the pool may be gone
                pool.sendall(FAILED + traceback.format_exc().encode())
                pool.shutdown(socket.SHUT_RDWR)
