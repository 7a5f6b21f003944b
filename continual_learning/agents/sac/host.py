"""Soft actor-critic on environments of the host: the device learns while workers step."""

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
    """What the next chunk reads; everything [lanes, …].

    Attributes:
      key: the seeds'; never changes.
      learner: networks, temperatures and optimizers.
      replay: the transitions to learn from.
      pool: `Pool.state`, the environments.
      latest: float32 [lanes, environments], return of the episode that each ended last.
      steps: int32 [lanes], steps done, the same in all.
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

    Rows are those of `sac`, with two differences: a metric of the environments is what the last
    step of an episode said, mean over the episodes that ended in the row; and an evaluation is a
    `HostEvaluation`.

    Args:
      policy: as for `sac`.
      critic: as for `sac`.
      problem: the tasks; with nonfinite="end", rows have "invalid_steps".
      optimizers: as for `sac`.
      config: as for `sac`. With `staleness` 0 the order is that of `sac`: act, step, learn. With 1
        the updates that follow a step are made while the next one is under way, whose actions so
        lack them. Nothing is left to be learned at the end of a row, and its first actions are of
        the newest policy in both cases.
      tasks: how many there will be.
      sample_scores: whether reset methods are given per-sample scores.
    """
    learning = SACLearner.of(policy, critic, problem.stream, optimizers, config, sample_scores)

    def program(seeds: Sequence[int], keys: jax.Array, hyper: Hyper) -> HostSAC:
        return HostSAC(learning, problem, tasks, seeds, keys, hyper)

    return HostTrainer(program, config.chunks(tasks), "latest_return", ring="replay")


@dataclasses.dataclass
class _Running:
    """What changes in a row on the device, [lanes, …].

    Attributes:
      learner: of all lanes.
      replay: its transitions.
      said: [lanes, metrics], sum over `learnt` steps of what their updates said.
      learnt: steps with updates.
    """

    learner: Learner
    replay: ReplayState
    said: jax.Array
    learnt: int = 0


class HostSAC:
    """The `Program` of `sac_host`.

    Workers are started when the first state is asked for.

    Args:
      learning: of one seed.
      problem: the tasks.
      tasks: how many there will be.
      seeds: one per lane.
      keys: theirs, [lanes].
      hyper: {name: [lanes]}.
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
        # The last state that was given away: where the pool is.
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

        It may be asked for in a thread, with whose end Linux would end workers that it started.
        """
        learner, replay, *_ = self._arguments["learn"]
        pool = state_like(self._stream, len(self._seeds), self._config.environments)
        state = HostSACState(self._keys, learner, replay, pool, *self._start())
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), state)

    @property
    def columns(self) -> list[str]:
        """Names of the columns of rows."""
        config, arguments = self._config, self._arguments
        found = [*jax.eval_shape(self._calls.describe, *arguments["describe"]), *METRICS]
        if config.diagnostics:
            found += jax.eval_shape(self._calls.ranks, *arguments["ranks"])
        if config.eval_every:
            found += self._evaluation.unsaid()
        return ["step", "task", *found, *self._tally().names]

    def compile(self, fresh: bool = True, quick: bool = False) -> None:
        """Compiles every call; nothing is run, and no worker is started."""
        config = self._config
        needed = {
            "begin": fresh,
            "store": config.learning_starts > self._config.environments,
            "ranks": config.diagnostics,
            "likeliest": config.eval_every > 0,
        }
        calls = {name: args for name, args in self._arguments.items() if needed.get(name, True)}
        on_cpu = jax.default_backend() == "cpu"
        # Updates take most of the time of a run, however short it is.
        hasty = [name for name in calls if name != "learn"] if quick and on_cpu else []
        self._calls.compile(calls, dict.fromkeys(hasty, QUICK))

    def init(self) -> HostSACState:
        """The state before the first task."""
        learner, replay = self._calls.begin(self._keys, self._hyper)
        return self._state(learner, replay, *self._start())

    def place(self, state: HostSACState) -> HostSACState:
        """A state that was kept, on the device."""
        key, learner, replay, *others = state
        on_device = jax.tree.map(jnp.asarray, (key, learner, replay))
        return HostSACState(*on_device, *jax.tree.map(np.asarray, others))

    def chunk(self, state: HostSACState) -> tuple[HostSACState, HostColumns]:
        """The next rows."""
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
        """Bytes that the updates after a step need of the device; nothing is run."""
        self._calls.compile({"learn": self._arguments["learn"]}, {})
        return planned_bytes(self._calls.learn)

    def close(self) -> None:
        """Ends the workers."""
        if "_pool" in vars(self):
            self._pool.close()
        self._evaluation.close()

    def _start(self) -> tuple[np.ndarray, np.ndarray]:
        """`latest` and `steps` at first."""
        lanes = len(self._seeds)
        return np.full((lanes, self._config.environments), np.nan, np.float32), np.zeros(
            lanes, np.int32
        )

    def _state(
        self, learner: Any, replay: Any, latest: np.ndarray, steps: np.ndarray
    ) -> HostSACState:
        return HostSACState(self._keys, learner, replay, self._pool.state(), latest, steps)

    def _row(self, run: _Running, latest: np.ndarray, steps: int) -> HostColumns:
        """Some steps from number `steps` on, and what there is to say of them."""
        pool, config = self._pool, self._config
        tally, waiting = self._tally(), None
        run.said, run.learnt = jnp.zeros_like(run.said), 0
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
        said = np.asarray(run.said).T / (run.learnt or np.nan)
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
        """Stores a step, and makes its updates if the task has given enough to learn from."""
        config = self._config
        of_task = (step.number % config.vector_steps_per_task + 1) * self._pool.environments
        step = step._replace(number=np.int32(step.number))
        if of_task < config.learning_starts:
            run.replay = self._calls.store(run.replay, step)
            return
        run.learner, run.replay, run.said = self._calls.learn(
            run.learner, run.replay, run.said, self._keys, self._hyper, step
        )
        run.learnt += 1

    def _looks(self, run: _Running, steps: int) -> list[HostColumns]:
        """What is measured at the end of a chunk."""
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
