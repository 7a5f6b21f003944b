"""Evaluation of policies on every task met so far, in a separate pool of environments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from continual_learning.agents.common.host_statistics import HostColumns
from continual_learning.envs.host.pool import Pool
from continual_learning.envs.host.protocol import HostStream
from continual_learning.schema.names import Nonfinite

Act = Callable[[Any, np.ndarray], Any]
"""A function (parameters of the policies [lanes, …], observations [lanes, envs, …]) -> actions."""


class HostEvaluation:
    """Evaluations of the policies of all lanes on the tasks of a stream.

    The first evaluation starts the workers. Every episode has its own environment.

    Args:
      stream: the tasks.
      seeds: the seeds of the lanes.
      tasks: the number of tasks of the run, which repeat those of the stream.
      episodes: the number of episodes of a task.
      workers, nonfinite: the same as in `Pool`.
    """

    def __init__(
        self,
        stream: HostStream,
        seeds: Sequence[int],
        tasks: int,
        episodes: int,
        workers: int | None,
        nonfinite: Nonfinite = "refuse",
    ):
        self._stream, self._seeds, self._episodes = stream, seeds, episodes
        self._workers = workers
        self._nonfinite: Nonfinite = nonfinite
        self._rounds = -(-tasks // len(stream.names))
        named = [(column(name), i) for i, name in enumerate(stream.names[:tasks])]
        # If several tasks have the same name, the evaluation plays the first of them.
        self._tasks = dict(reversed(named))
        self._tasks = {name: self._tasks[name] for name, _ in named}
        self._pool: Pool | None = None

    def close(self) -> None:
        """End the workers."""
        if self._pool is not None:
            self._pool.close()

    def unsaid(self) -> HostColumns:
        """Return the columns of an evaluation that is not due: NaN, and 0 steps."""
        empty = np.full(len(self._seeds), np.nan, np.float32)
        columns = {
            _name(task, metric): empty
            for metric in self._measures
            for task in ("seen", *self._tasks)
        }
        return {**columns, "evaluation_steps": np.zeros(len(self._seeds), np.int32)}

    def evaluate(self, act: Act, params: Any, now: int, number: int) -> HostColumns:
        """Play the episodes of an evaluation.

        Args:
          act: the deterministic policies.
          params: the parameters of the policies.
          now: the number of the task in training.
          number: the number of the evaluation, from 0. Every evaluation has different episodes,
            and training has none of them.

        Returns:
          Columns [lanes]: "eval_NAME", the mean return on every task met so far, NaN for the other
          tasks; "eval_seen", the mean over the tasks met; "eval_NAME_METRIC" and
          "eval_seen_METRIC", the same means of a metric in the last steps of the episodes;
          "evaluation_steps", the number of steps of a lane's episodes.
        """
        columns = self.unsaid()
        met = {name: i for name, i in self._tasks.items() if i <= now}
        for name, index in met.items():
            task = index + len(self._stream.names) * (self._rounds + number)
            found, steps = self._play(act, params, task)
            columns |= {_name(name, metric): found[metric] for metric in self._measures}
            columns["evaluation_steps"] = columns["evaluation_steps"] + steps
        for metric in self._measures:
            of_met = np.stack([columns[_name(name, metric)] for name in met])
            columns[_name("seen", metric)] = of_met.mean(axis=0)
        return columns

    @property
    def _measures(self) -> tuple[str, ...]:
        return ("", *self._stream.metrics)

    def _play(self, act: Act, params: Any, task: int) -> tuple[HostColumns, np.ndarray]:
        """Return means over the first episode of every environment, and their number of steps."""
        if self._pool is None:
            self._pool = Pool(
                self._stream, self._seeds, self._episodes, self._workers, self._nonfinite
            )
        pool, shape = self._pool, (len(self._seeds), self._episodes)
        pool.enter(task)
        found = {metric: np.full(shape, np.nan, np.float32) for metric in self._measures}
        playing, steps = np.ones(shape, bool), np.zeros(len(self._seeds), np.int32)
        while playing.any():
            steps += playing.sum(axis=1, dtype=np.int32)
            reached = pool.step(playable(act(params, pool.observation)))
            over = playing & reached.ended
            for metric, values in found.items():
                said = reached.metrics[metric] if metric else reached.episode_return
                values[over] = said[over]
            playing &= ~reached.ended
        return {metric: values.mean(axis=1) for metric, values in found.items()}, steps


def playable(actions: Any) -> np.ndarray:
    """Return the actions of policies with 0 in place of numbers that are not finite.

    The losses show that a policy is no longer finite. The environments are not at fault, so the
    actions must not end the run, which has other seeds as well.
    """
    return np.nan_to_num(np.asarray(actions), nan=0.0, posinf=0.0, neginf=0.0)


def column(task: str) -> str:
    """Return the name of a task in the names of columns: "pick-place" becomes "pick_place"."""
    return "".join(x if x.isalnum() else "_" for x in task)


def _name(task: str, metric: str) -> str:
    return f"eval_{task}_{metric}" if metric else f"eval_{task}"
