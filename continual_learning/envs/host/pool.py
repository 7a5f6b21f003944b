"""Environments of all seeds, stepped side by side by worker processes."""

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

    An episode depends on (seed, number of the environment, number of the task, number of the
    episode) alone: not on the workers, nor on what other environments do.

    A worker that dies is replaced: its environments begin a new episode, and the step in which it
    died is a truncation with reward 0 that reached what was acted on. An exception in an
    environment ends the pool with a `WorkerError` that holds the traceback; so does an observation
    or a reward of another shape or type than the stream promises. A worker that does not answer is
    told of after 30 seconds, and replaced after `limit`.

    Use it as a context, or `close` it. Workers of a pool that is not stepped use no time, so
    episodes of other tasks (an evaluation) are best run in a second pool.

    Args:
      stream: the tasks.
      seeds: one number per training run.
      environments: how many of them each seed has.
      workers: processes; by default one per core, and no more than there are environments.
      nonfinite: what a step does whose observation or reward is not finite. "refuse": it is an
        error, which names the environment and the step. "end": it is a truncation with reward 0
        that reached what was acted on, as if its worker had died, and it is `invalid`.
      limit: seconds within which a worker must answer: step all its environments, say. One that
        does not is killed, and replaced like one that died.

    Attributes:
      stream, seeds, environments: as given.
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
        """Ends the workers."""
        self._workers.close()

    @property
    def observation(self) -> np.ndarray:
        """What to act on next, float32 [seeds, environments, observation_size]."""
        return self._shaped(self._observation)

    @property
    def workers_lost(self) -> int:
        """Workers that died and were replaced so far."""
        return self._workers.lost

    @property
    def pids(self) -> tuple[int, ...]:
        """The numbers of the workers' processes."""
        return self._workers.pids

    def enter(self, task: int | Sequence[int] | np.ndarray) -> np.ndarray:
        """All environments begin a task with its first episode; what to act on next.

        Args:
          task: its number in the stream, whose tasks follow one another over and over; or
            [environments] such numbers, if those of a seed are to be in different tasks.

        Returns:
          float32 [seeds, environments, observation_size].
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
        """One step of all environments; those whose episode ended have restarted."""
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions: Any) -> None:
        """Begins a step, for which `step_wait` waits.

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
        """What the step led to that was begun last."""
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
        """Where all environments are, for checkpoints; shapes never change, also before a task.

        Returns:
          {name: [seeds, environments, …]}, in dtypes that JAX leaves as they are: "environment"
          holds the 64-bit numbers of the environments as uint32 [.., 2·state_size].
        """
        self._check_idle()
        if self.stream.state_size and self._memory.task[0] >= 0:
            while (cut := self._workers.ask(SAVE)).any():
                self._settle(cut)
        return {name: array.copy() for name, array in self._kept().items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes on where `state` was called.

        Environments that cannot be saved (`state_size` 0) begin a new episode instead.

        Args:
          state: what `state` gave, of a pool of the same stream, seeds and environments.
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
        """What makes up the state, the pool's own memory."""
        kept = _kept(self._memory, self._return)
        return {name: self._shaped(array) for name, array in kept.items()}

    def _settle(self, began: np.ndarray) -> None:
        """Takes note of what the workers show, and of episodes that began, bool [count]."""
        self._observation = self._memory.observation.copy()
        self._return[began] = 0.0
        self._length[began] = 0

    def _check_idle(self) -> None:
        self._check_open()
        if self._stepping:
            raise RuntimeError("Pool: a step was begun; call step_wait() first.")

    def _check_open(self) -> None:
        if self._workers.closed:
            raise RuntimeError("Pool: it is closed, by close(), an error or an interrupt.")

    def _shaped(self, array: np.ndarray) -> np.ndarray:
        """[count, …] as [seeds, environments, …], the same memory."""
        return array.reshape(len(self.seeds), self.environments, *array.shape[1:])


def state_like(stream: HostStream, seeds: int, environments: int) -> dict[str, np.ndarray]:
    """Return arrays in the shapes and types of `Pool.state`, without a pool.

    Args:
      stream: the tasks.
      seeds: how many.
      environments: of each seed.
    """
    count = seeds * environments
    memory = Memory.on(bytearray(size(stream, count)), stream, count)
    kept = _kept(memory, np.zeros(count, np.float32))
    return {name: x.reshape(seeds, environments, *x.shape[1:]) for name, x in kept.items()}


def _kept(memory: Memory, episode_return: np.ndarray) -> dict[str, np.ndarray]:
    """What makes up the state of a pool, [count, …]."""
    return {
        "task": memory.task,
        "episode": memory.episode,
        "observation": memory.observation,
        "episode_return": episode_return,
        "episode_length": memory.length,
        "environment": memory.state.view(np.uint32),
    }
