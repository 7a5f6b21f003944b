"""Soft actor-critic on environments of the host, which workers step while the device learns."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.agents.common.host_evaluate import HostEvaluation, playable
from continual_learning.agents.common.host_statistics import HostColumns, Tally, in_last_row
from continual_learning.agents.common.statistics import disjoint
from continual_learning.agents.common.trainer import (
    QUICK,
    HostTrainer,
    Hyper,
    MakeOptimizer,
    planned_bytes,
)
from continual_learning.agents.sac.calls import SACCalls, Step, outcome
from continual_learning.agents.sac.config import SACConfig
from continual_learning.agents.sac.learner import SACLearner
from continual_learning.agents.sac.replay import ReplayState
from continual_learning.agents.sac.update import METRICS, Learner
from continual_learning.envs.catalog import OnHost
from continual_learning.envs.host.pool import Pool, state_like
from continual_learning.envs.host.protocol import HostStream
from continual_learning.schema.names import Nonfinite


class HostSACState(NamedTuple):
    """The state that the next chunk reads; all arrays are [lanes, …].

    Attributes:
      key: the keys of the seeds, which never change.
      learner: the networks, temperatures and optimizers.
      replay: the transitions to learn from.
      pool: the state of the environments, by `Pool.state`.
      latest: float32 [lanes, environments], the return of the last episode that ended.
      steps: int32 [lanes], the number of steps done, the same in all lanes.
    """

    key: jax.Array
    learner: Learner
    replay: ReplayState
    pool: dict[str, np.ndarray]
    latest: np.ndarray
    steps: np.ndarray


def sac_host(
    policy: nn.Module,
    critic: nn.Module,
    problem: OnHost,
    optimizers: Mapping[str, MakeOptimizer],
    config: SACConfig,
    *,
    tasks: int,
    sample_scores: bool = False,
) -> HostTrainer:
    """Return a trainer on tasks of the host, for all seeds on one device.

    Rows are those of `sac`, with two differences: a metric of the environments is the mean of its
    values in the last steps of the episodes that ended in the row, and an evaluation is a
    `HostEvaluation`.

    Args:
      policy: the policy network, the same as in `sac`.
      critic: the critic, the same as in `sac`.
      problem: the tasks; with nonfinite="end", rows have "invalid_steps".
      optimizers: the functions that make the optimizers, the same as in `sac`.
      config: the sizes and numbers. With `staleness` 0, the order is that of `sac`: act, step,
        learn. With 1, the updates that follow a step take place during the next step, whose
        actions therefore come from the policy before them. In both cases, all updates are done at
        the end of a row, and the newest policy chooses the first actions of a row.
      tasks: the number of tasks of the run.
      sample_scores: whether reset methods get per-sample scores.
    """
    learning = SACLearner.of(policy, critic, problem.stream, optimizers, config, sample_scores)

    def program(seeds: Sequence[int], keys: jax.Array, hyper: Hyper) -> HostSAC:
        return HostSAC(learning, problem, tasks, seeds, keys, hyper)

    return HostTrainer(program, config.chunks(tasks), "latest_return", ring="replay")


@dataclasses.dataclass
class _Running:
    """The arrays on the device that change during a row, [lanes, …].

    Attributes:
      learner: the learners of all lanes.
      replay: their transitions.
      said: [lanes, metrics], the sum of the metrics of the updates over `learned` steps.
      learned: the number of steps with updates.
    """

    learner: Learner
    replay: ReplayState
    said: jax.Array
    learned: int = 0


class HostSAC:
    """The `Program` of `sac_host`.

    The workers are started when the first state is requested.

    Args:
      learning: the learner of one seed.
      problem: the tasks.
      tasks: the number of tasks of the run.
      seeds: the seeds, one per lane.
      keys: the keys of the seeds, [lanes].
      hyper: the traced numbers, {name: [lanes]}.
    """

    def __init__(
        self,
        learning: SACLearner,
        problem: OnHost,
        tasks: int,
        seeds: Sequence[int],
        keys: jax.Array,
        hyper: Hyper,
    ):
        stream: HostStream = problem.stream
        self._config, self._stream, self._seeds = learning.config, stream, seeds
        self._keys, self._hyper = keys, hyper
        self._workers = problem.workers
        self._nonfinite: Nonfinite = problem.nonfinite
        self._learning, self._calls = learning, SACCalls(learning, len(seeds))
        config = learning.config
        self._evaluation = HostEvaluation(
            stream, seeds, tasks, config.eval_episodes, self._workers, self._nonfinite
        )
        # The last state that `chunk` returned, in which the pool is.
        self._given: HostSACState | None = None

    @functools.cached_property
    def _pool(self) -> Pool:
        return Pool(
            self._stream, self._seeds, self._config.environments, self._workers, self._nonfinite
        )

    @functools.cached_property
    def _arguments(self) -> dict[str, tuple[Any, ...]]:
        size, episodes = self._stream.observation_size, self._config.eval_episodes
        return self._calls.arguments(
            self._keys, self._hyper, size, self._config.environments, episodes
        )

    @property
    def like(self) -> HostSACState:
        """A tree like the state; no worker is started.

        A thread may request it, and Linux would kill the workers of a thread when the thread ends.
        """
        learner, replay, *_ = self._arguments["learn"]
        pool = state_like(self._stream, len(self._seeds), self._config.environments)
        state = HostSACState(self._keys, learner, replay, pool, *self._start())
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), state)

    @property
    def columns(self) -> list[str]:
        """The names of the columns of rows."""
        config, arguments = self._config, self._arguments
        found = [*jax.eval_shape(self._calls.describe, *arguments["describe"]), *METRICS]
        if config.diagnostics:
            found += jax.eval_shape(self._calls.ranks, *arguments["ranks"])
        if config.eval_every:
            found += self._evaluation.unsaid()
        return ["step", "task", *found, *self._tally().names]

    def compile(self, fresh: bool = True, quick: bool = False) -> None:
        """Compile every call; nothing is run, and no worker is started."""
        config = self._config
        needed = {
            "begin": fresh,
            "store": config.learning_starts > self._config.environments,
            "ranks": config.diagnostics,
            "likeliest": config.eval_every > 0,
        }
        calls = {name: args for name, args in self._arguments.items() if needed.get(name, True)}
        on_cpu = jax.default_backend() == "cpu"
        # Updates take most of the time even of a short run.
        hasty = [name for name in calls if name != "learn"] if quick and on_cpu else []
        self._calls.compile(calls, dict.fromkeys(hasty, QUICK))

    def init(self) -> HostSACState:
        """Return the state before the first task."""
        learner, replay = self._calls.begin(self._keys, self._hyper)
        return self._state(learner, replay, *self._start())

    def place(self, state: HostSACState) -> HostSACState:
        """Move a state from a checkpoint to the device."""
        key, learner, replay, *others = state
        on_device = jax.tree.map(jnp.asarray, (key, learner, replay))
        return HostSACState(*on_device, *jax.tree.map(np.asarray, others))

    def chunk(self, state: HostSACState) -> tuple[HostSACState, HostColumns]:
        """Run the next rows; return the state after them and the rows."""
        config, steps = self._config, int(state.steps[0])
        said = jnp.zeros((len(self._pool.seeds), len(METRICS)))
        run, latest = _Running(state.learner, state.replay, said), state.latest.copy()
        if steps % config.vector_steps_per_task == 0:
            self._pool.enter(steps // config.vector_steps_per_task)
            run.learner = self._calls.change(run.learner, self._hyper)
        elif state is not self._given:
            self._pool.restore(state.pool)
        rows = []
        for _ in range(config.rows_per_chunk):
            rows.append(self._row(run, latest, steps))
            steps += config.steps_per_row
        rows = {name: np.stack([row[name] for row in rows], axis=1) for name in rows[0]}
        rows = disjoint(rows, *(in_last_row(each, rows) for each in self._looks(run, steps)))
        if steps % config.vector_steps_per_task == 0 and config.reset_replay:
            run.replay = self._learning.replay.clear(run.replay, jnp.array(True))
        self._given = self._state(run.learner, run.replay, latest, np.full_like(state.steps, steps))
        return self._given, rows

    def memory(self) -> int:
        """Return the bytes that the updates after a step need of the device; nothing is run."""
        self._calls.compile({"learn": self._arguments["learn"]}, {})
        return planned_bytes(self._calls.learn)

    def close(self) -> None:
        """End the workers."""
        if "_pool" in vars(self):
            self._pool.close()
        self._evaluation.close()

    def _start(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the initial `latest` and `steps`."""
        lanes = len(self._seeds)
        return np.full((lanes, self._config.environments), np.nan, np.float32), np.zeros(
            lanes, np.int32
        )

    def _state(
        self, learner: Any, replay: Any, latest: np.ndarray, steps: np.ndarray
    ) -> HostSACState:
        return HostSACState(self._keys, learner, replay, self._pool.state(), latest, steps)

    def _row(self, run: _Running, latest: np.ndarray, steps: int) -> HostColumns:
        """Make the steps of a row, and return the row.

        Args:
          run: the arrays on the device, which are replaced.
          latest: [lanes, environments], which is updated in place.
          steps: the number of steps done.
        """
        pool, config = self._pool, self._config
        tally, waiting = self._tally(), None
        run.said, run.learned = jnp.zeros_like(run.said), 0
        end = steps + config.steps_per_row
        for number in range(steps, end):
            observation = jax.device_put(pool.observation)
            params = run.learner.params["policy"]
            action = self._calls.act(params, self._keys, np.int32(number), observation)
            pool.step_async(playable(action))
            if waiting is not None:
                self._learn_from(run, waiting)
            reached = pool.step_wait()
            waiting = Step(number, observation, action, outcome(reached))
            if not config.staleness:
                self._learn_from(run, waiting)
                waiting = None
            np.copyto(latest, reached.episode_return, where=reached.ended)
            tally.add(reached)
        if waiting is not None:
            self._learn_from(run, waiting)
        described = self._calls.describe(run.learner, run.replay, self._keys, np.int32(end))
        said = np.asarray(run.said).T / (run.learned or np.nan)
        lanes = len(pool.seeds)
        return disjoint(
            {
                "step": np.full(lanes, end * pool.environments, np.int32),
                "task": np.full(lanes, (end - 1) // config.vector_steps_per_task, np.int32),
            },
            {name: np.asarray(x) for name, x in described.items()},
            dict(zip(METRICS, said, strict=True)),
            tally.columns(latest),
        )

    def _tally(self) -> Tally:
        return Tally(len(self._seeds), self._stream.metrics, self._nonfinite == "end")

    def _learn_from(self, run: _Running, step: Step) -> None:
        """Store a step, and make its updates if the task has enough transitions."""
        config = self._config
        of_task = (step.number % config.vector_steps_per_task + 1) * self._pool.environments
        step = step._replace(number=np.int32(step.number))
        if of_task < config.learning_starts:
            run.replay = self._calls.store(run.replay, step)
            return
        run.learner, run.replay, run.said = self._calls.learn(
            run.learner, run.replay, run.said, self._keys, self._hyper, step
        )
        run.learned += 1

    def _looks(self, run: _Running, steps: int) -> list[HostColumns]:
        """Return the columns that are measured at the end of a chunk: ranks and evaluations."""
        config, found = self._config, []
        if config.diagnostics:
            ranks = self._calls.ranks(run.learner, run.replay, self._keys, np.int32(steps))
            found.append({name: np.asarray(x) for name, x in ranks.items()})
        if config.eval_every:
            due = steps % config.eval_every == 0
            now, number = (
                (steps - 1) // config.vector_steps_per_task,
                steps // config.eval_every - 1,
            )
            params = run.learner.params["policy"]
            evaluation = self._evaluation
            found.append(
                evaluation.evaluate(self._calls.likeliest, params, now, number)
                if due
                else evaluation.unsaid()
            )
        return found
