"""The environments of all seeds, which worker processes step side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from continual_learning.envs.host.memory import Memory, size
from continual_learning.envs.host.process import LIMIT
from continual_learning.envs.host.protocol import HostStream, HostTimestep
from continual_learning.envs.host.worker import BEGIN, RESTORE, SAVE, STEP
from continual_learning.envs.host.workers import Workers
from continual_learning.schema.names import Nonfinite


class Pool:
    """The environments of several seeds on a stream of tasks, which restart by themselves.

    An episode depends only on the seed and the numbers of the environment, the task and the
    episode. It depends neither on the workers nor on other environments.

    The pool replaces a worker that dies. The environments of that worker begin a new episode, and
    the step in which it died becomes a truncation with reward 0 that reached the observation acted
    on. If an environment raises an exception, or returns an observation or a reward of another
    shape or type than the stream promises, the pool ends with a `WorkerError` that has the
    traceback. If a worker does not answer, the pool warns after 30 seconds and replaces the worker
    after `limit`.

    Use a pool as a context manager, or `close` it. Workers of a pool that is not stepped use no
    time, so a second pool is the best place for episodes of other tasks, as in an evaluation.

    Args:
      stream: the tasks.
      seeds: one number per training run.
      environments: the number of environments of a seed.
      workers: the number of processes; by default one per core, and at most one per environment.
      nonfinite: the treatment of a step whose observation or reward is not finite. With "refuse"
        it is an error, which names the environment and the step. With "end" it becomes a truncation
        with reward 0 that reached the observation acted on, as if the worker had died, and it is
        marked as `invalid`.
      limit: the number of seconds within which a worker must answer, for example step all its
        environments. A worker that does not is killed and replaced.

    Attributes:
      stream, seeds, environments: the arguments.
    """

    def __init__(
        self,
        stream: HostStream,
        seeds: Sequence[int],
        environments: int,
        workers: int | None = None,
        nonfinite: Nonfinite = "refuse",
        limit: float = LIMIT,
    ):
        self.stream = stream
        self.seeds = tuple(int(seed) for seed in seeds)
        self.environments = environments
        if not self.seeds or min(self.seeds) < 0:
            raise ValueError(f"Pool: seeds must be numbers from 0, at least one, got {seeds!r}.")
        if environments < 1:
            raise ValueError(f"Pool: environments must be at least 1, got {environments}.")
        if workers is not None and workers < 1:
            raise ValueError(f"Pool: workers must be at least 1, or None, got {workers}.")
        places = [(seed, number) for seed in self.seeds for number in range(environments)]
        if nonfinite not in ("refuse", "end"):
            raise ValueError(f"Pool: nonfinite must be 'refuse' or 'end', got {nonfinite!r}.")
        if not limit > 0:
            raise ValueError(f"Pool: limit must be above 0 seconds, got {limit!r}.")
        self._workers = Workers(stream, places, workers, nonfinite == "end", limit)
        self._memory = self._workers.memory
        self._memory.task[:] = -1
        self._stepping = False
        self._observation = self._memory.observation.copy()
        self._return = np.zeros(len(places), np.float32)
        self._length = self._memory.length

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers."""
        self._workers.close()

    @property
    def observation(self) -> np.ndarray:
        """The observations to act on next, float32 [seeds, environments, observation_size]."""
        return self._shaped(self._observation)

    @property
    def workers_lost(self) -> int:
        """The number of workers that died and were replaced so far."""
        return self._workers.lost

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of the workers' processes."""
        return self._workers.pids

    def enter(self, task: int | Sequence[int] | np.ndarray) -> np.ndarray:
        """Begin the first episode of a task in all environments.

        Args:
          task: the number of the task in the stream, whose tasks repeat; or numbers
            [environments], to put the environments of a seed into different tasks.

        Returns:
          The observations to act on next, float32 [seeds, environments, observation_size].
        """
        self._check_idle()
        tasks = np.asarray(task)
        if tasks.dtype.kind not in "iu" or tasks.shape not in ((), (self.environments,)):
            raise ValueError(
                f"Pool: a task must be a whole number, or one for each of {self.environments} "
                f"environments, got {task!r}."
            )
        if tasks.min() < 0:
            raise ValueError(f"Pool: tasks are counted from 0, got {task!r}.")
        self._shaped(self._memory.task)[:] = tasks
        self._memory.episode[:] = 0
        self._workers.ask(BEGIN)
        self._settle(np.ones_like(self._length, bool))
        return self.observation

    def step(self, actions: Any) -> HostTimestep:
        """Step all environments once, and restart those whose episode ended."""
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions: Any) -> None:
        """Begin a step, for which `step_wait` waits.

        Args:
          actions: float32 [seeds, environments, action_size] from (−1, 1), or int32
            [seeds, environments] where they are discrete.
        """
        self._check_idle()
        if self._memory.task[0] < 0:
            raise RuntimeError("Pool: no task has begun; call enter(task) before the first step.")
        actions, expected = np.asarray(actions), self._shaped(self._memory.action)
        if actions.shape != expected.shape or actions.dtype.kind != expected.dtype.kind:
            raise ValueError(
                f"Pool: actions must be {expected.dtype} {list(expected.shape)}, got "
                f"{actions.dtype} {list(actions.shape)}."
            )
        if not np.isfinite(actions).all():
            seed, number = np.argwhere(~np.isfinite(actions))[0, :2]
            raise ValueError(
                f"Pool: the actions {actions[seed, number]} for environment {number} of seed "
                f"{self.seeds[seed]} are not finite."
            )
        expected[:] = actions
        self._workers.begin(STEP)
        self._stepping = True

    def step_wait(self) -> HostTimestep:
        """Wait for the step that was begun last, and return its outcome."""
        self._check_open()
        if not self._stepping:
            raise RuntimeError("Pool: no step was begun; call step_async(actions) first.")
        memory, cut = self._memory, self._workers.wait()
        self._stepping = False
        memory.reached[cut] = self._observation[cut]
        for array in (memory.reward, memory.metrics, memory.terminated, memory.invalid):
            array[cut] = 0
        memory.truncated[cut] = True
        self._return += memory.reward
        self._length += 1
        metrics = zip(self.stream.metrics, memory.metrics.T, strict=True)
        timestep = HostTimestep(
            self._shaped(memory.reached.copy()),
            self._shaped(memory.reward.copy()),
            self._shaped(memory.terminated.copy()),
            self._shaped(memory.truncated.copy()),
            self._shaped(self._return.copy()),
            self._shaped(self._length.copy()),
            {name: self._shaped(each.copy()) for name, each in metrics},
            self._shaped(memory.invalid.copy()),
        )
        self._settle(timestep.ended.reshape(-1))
        return timestep

    def state(self) -> dict[str, np.ndarray]:
        """Return the states of all environments; checkpoints keep them.

        The shapes never change, not even before the first task.

        Returns:
          {name: [seeds, environments, …]}, in dtypes that JAX does not convert: "environment"
          has the 64-bit numbers of the environments as uint32 [.., 2·state_size].
        """
        self._check_idle()
        if self.stream.state_size and self._memory.task[0] >= 0:
            while (cut := self._workers.ask(SAVE)).any():
                self._settle(cut)
        return {name: array.copy() for name, array in self._kept().items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state.

        Environments that cannot be saved (`state_size` 0) begin a new episode instead.

        Args:
          state: the result of `state` of a pool with the same stream, seeds and environments.
        """
        self._check_idle()
        memory, kept = self._memory, self._kept()
        given = {name: np.asarray(array) for name, array in state.items()}
        told = {name: (array.dtype, array.shape) for name, array in given.items()}
        expected = {name: (array.dtype, array.shape) for name, array in kept.items()}
        if told != expected:
            raise ValueError(f"Pool: the state must be {expected}, got {told}.")
        if given["task"].min() < 0 <= given["task"].max():
            raise ValueError("Pool: some environments of the state are in a task, others are not.")
        for name, array in kept.items():
            array[:] = given[name]
        began = np.zeros_like(self._length, bool)
        if memory.task[0] >= 0 and self.stream.state_size:
            began = self._workers.ask(RESTORE)
        elif memory.task[0] >= 0:
            memory.episode[:] += 1
            self._workers.ask(BEGIN)
            began[:] = True
        self._settle(began)

    def _kept(self) -> dict[str, np.ndarray]:
        """Return the arrays of the state, which share the memory of the pool."""
        kept = _kept(self._memory, self._return)
        return {name: self._shaped(array) for name, array in kept.items()}

    def _settle(self, began: np.ndarray) -> None:
        """Read the workers' observations, and reset the episodes that `began`, bool [count]."""
        self._observation = self._memory.observation.copy()
        self._return[began] = 0.0
        self._length[began] = 0

    def _check_idle(self) -> None:
        self._check_open()
        if self._stepping:
            raise RuntimeError("Pool: a step was begun; call step_wait() first.")

    def _check_open(self) -> None:
        if self._workers.closed:
            raise RuntimeError("Pool: close(), an error or an interrupt has closed the pool.")

    def _shaped(self, array: np.ndarray) -> np.ndarray:
        """Return an array [count, …] as [seeds, environments, …] in the same memory."""
        return array.reshape(len(self.seeds), self.environments, *array.shape[1:])


def state_like(stream: HostStream, seeds: int, environments: int) -> dict[str, np.ndarray]:
    """Return arrays in the shapes and types of `Pool.state`, without a pool.

    Args:
      stream: the tasks.
      seeds: the number of seeds.
      environments: the number of environments of a seed.
    """
    count = seeds * environments
    memory = Memory.on(bytearray(size(stream, count)), stream, count)
    kept = _kept(memory, np.zeros(count, np.float32))
    return {name: x.reshape(seeds, environments, *x.shape[1:]) for name, x in kept.items()}


def _kept(memory: Memory, episode_return: np.ndarray) -> dict[str, np.ndarray]:
    """Return the arrays of the state of a pool, [count, …]."""
    return {
        "task": memory.task,
        "episode": memory.episode,
        "observation": memory.observation,
        "episode_return": episode_return,
        "episode_length": memory.length,
        "environment": memory.state.view(np.uint32),
    }
