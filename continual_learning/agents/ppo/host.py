"""PPO on environments of the host, which workers step while the device waits for a rollout."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.agents.common.host_evaluate import playable
from continual_learning.agents.common.host_statistics import HostColumns, Tally, in_last_row
from continual_learning.agents.common.lanes import over_lanes
from continual_learning.agents.common.statistics import disjoint
from continual_learning.agents.common.trainer import (
    COMPILER_OPTIONS,
    QUICK,
    HostTrainer,
    Hyper,
    MakeOptimizer,
    planned_bytes,
    strongly_typed,
)
from continual_learning.agents.ppo.config import PPOConfig
from continual_learning.agents.ppo.learner import Learner, PPOLearner
from continual_learning.agents.ppo.rollout import Rollout
from continual_learning.agents.ppo.update import Params
from continual_learning.envs.catalog import OnHost
from continual_learning.envs.host.pool import Pool, state_like
from continual_learning.envs.host.protocol import HostStream


class HostPPOState(NamedTuple):
    """The state that the next chunk reads; all arrays are [lanes, …].

    Attributes:
      key: the keys of the seeds, which never change.
      params, optimizers, normalizer: the same as in `PPOState`.
      pool: the state of the environments, by `Pool.state`.
      latest: float32 [lanes, environments], the return of the last episode that ended.
      iteration: int32 [lanes], the number of iterations done, the same in all lanes.
    """

    key: jax.Array
    params: Params
    optimizers: Params
    normalizer: Any
    pool: dict[str, np.ndarray]
    latest: np.ndarray
    iteration: np.ndarray


def ppo_host(
    policy: nn.Module,
    value: nn.Module,
    problem: OnHost,
    optimizers: Mapping[str, MakeOptimizer],
    config: PPOConfig,
    *,
    tasks: int,
    sample_scores: bool = False,
) -> HostTrainer:
    """Return a trainer on tasks of the host, for all seeds on one device.

    Rows are those of `ppo`, but a metric of the environments is the mean of its values in the last
    steps of the episodes that ended in the row. Continuous actions are clipped to (−1, 1) when they
    are applied, in addition to any clip to `config.action_limit`; the rollout stores them without
    the clip to (−1, 1).

    Args:
      policy: the policy network, the same as in `ppo`.
      value: the value network, the same as in `ppo`.
      problem: the tasks; with nonfinite="end", rows have "invalid_steps".
      optimizers: the functions that make the optimizers of both networks.
      config: the sizes and numbers.
      tasks: the number of tasks of the run.
      sample_scores: whether reset methods get per-sample scores.
    """
    learning = PPOLearner.of(policy, value, problem.stream, optimizers, config, sample_scores)

    def program(seeds: Sequence[int], keys: jax.Array, hyper: Hyper) -> HostPPO:
        return HostPPO(learning, problem, seeds, keys, hyper)

    return HostTrainer(program, config.chunks(tasks), "latest_return")


class HostPPO:
    """The `Program` of `ppo_host`.

    The workers are started when the first state is requested.

    Args:
      learning: the learner of one seed.
      problem: the tasks.
      seeds: the seeds, one per lane.
      keys: the keys of the seeds, [lanes].
      hyper: the traced numbers, {name: [lanes]}.
    """

    def __init__(
        self,
        learning: PPOLearner,
        problem: OnHost,
        seeds: Sequence[int],
        keys: jax.Array,
        hyper: Hyper,
    ):
        self._learning, self._config = learning, learning.config
        self._stream: HostStream = problem.stream
        self._workers = problem.workers
        self._nonfinite: Literal["refuse", "end"] = problem.nonfinite
        self._seeds, self._keys, self._hyper = seeds, keys, hyper
        lanes = len(seeds)

        def call(function: Any, *axes: Any, **options: Any) -> Any:
            return jax.jit(over_lanes(function, lanes, axes), **options)

        def begin(key: jax.Array, hyper: Hyper) -> Learner:
            return strongly_typed(learning.init(key, hyper))

        def learn(*args: Any) -> Any:
            return strongly_typed(learning.learn(*args))

        # These functions give the shapes, since a compiled call takes only arrays.
        self._shapes_of_begin = over_lanes(begin, lanes, (0, 0))
        self._shapes_of_learn = over_lanes(learn, lanes, (0, 0, 0, 0, None, 0))
        self._shapes_of_ranks = over_lanes(learning.ranks, lanes, (0, 0))
        self._begin: Any = call(begin, 0, 0)
        self._act: Any = call(learning.act, 0, 0, None, None, 0)
        self._learn: Any = call(
            learn, 0, 0, 0, 0, None, 0, donate_argnums=0, compiler_options=COMPILER_OPTIONS
        )
        self._ranks: Any = call(learning.ranks, 0, 0)
        # The last state that `chunk` returned, in which the pool is.
        self._given: HostPPOState | None = None

    @functools.cached_property
    def _pool(self) -> Pool:
        environments = self._config.environments
        return Pool(self._stream, self._seeds, environments, self._workers, self._nonfinite)

    @property
    def like(self) -> HostPPOState:
        """A tree like the state; no worker is started.

        A thread may request it, and Linux would kill the workers of a thread when the thread ends.
        """
        learner = jax.eval_shape(self._shapes_of_begin, self._keys, self._hyper)
        pool = state_like(self._stream, len(self._seeds), self._config.environments)
        latest, iteration = self._start()
        state = HostPPOState(self._keys, *learner, pool=pool, latest=latest, iteration=iteration)
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), state)

    @property
    def columns(self) -> list[str]:
        """The names of the columns of rows."""
        arguments = self._arguments
        said = jax.eval_shape(self._shapes_of_learn, *arguments["_learn"])[2]
        found = ["step", "task", *said, *self._tally().names]
        if self._config.diagnostics:
            found += jax.eval_shape(self._shapes_of_ranks, *arguments["_ranks"])
        return found

    @functools.cached_property
    def _arguments(self) -> dict[str, tuple[Any, ...]]:
        """The arguments of the calls, or their shapes: {call: arguments}."""
        config, lanes, inputs = self._config, len(self._seeds), self._learning.inputs
        learner = jax.eval_shape(self._shapes_of_begin, self._keys, self._hyper)
        envs, number = config.environments, np.int32(0)

        def shape(*sizes: int, dtype: Any = jnp.float32) -> Any:
            return jax.ShapeDtypeStruct((lanes, *sizes), dtype)

        seen, time = shape(envs, inputs), (config.rollout, envs)
        rollout = Rollout(
            shape(*time, inputs),
            shape(*time, self._learning.actions.size),
            shape(*time),
            shape(*time),
            shape(*time, dtype=bool),
            shape(*time, dtype=bool),
            shape(*time, inputs) if config.truncation == "bootstrap" else (),
        )
        return {
            "_begin": (self._keys, self._hyper),
            "_act": (learner, self._keys, number, number, seen),
            "_learn": (learner, rollout, seen, self._keys, number, self._hyper),
            "_ranks": (learner.params, shape(config.probe, inputs)),
        }

    def compile(self, fresh: bool = True, quick: bool = False) -> None:
        """Compile every call; nothing is run, and no worker is started."""
        needed = {"_begin": fresh, "_ranks": self._config.diagnostics}
        on_cpu = jax.default_backend() == "cpu"
        for name, args in self._arguments.items():
            call = getattr(self, name)
            if needed.get(name, True) and not isinstance(call, jax.stages.Compiled):
                # Updates take most of the time even of a short run.
                hasty = quick and on_cpu and name != "_learn"
                setattr(self, name, call.lower(*args).compile(QUICK if hasty else {}))

    def init(self) -> HostPPOState:
        """Return the state before the first task."""
        return self._state(self._begin(self._keys, self._hyper), *self._start())

    def place(self, state: HostPPOState) -> HostPPOState:
        """Move a state from a checkpoint to the device."""
        key, params, optimizers, normalizer, *others = state
        on_device = jax.tree.map(jnp.asarray, (key, params, optimizers, normalizer))
        return HostPPOState(*on_device, *jax.tree.map(np.asarray, others))

    def chunk(self, state: HostPPOState) -> tuple[HostPPOState, HostColumns]:
        """Run the next rows; return the state after them and the rows."""
        config, iteration = self._config, int(state.iteration[0])
        learner = Learner(state.params, state.optimizers, state.normalizer)
        latest = state.latest.copy()
        if iteration % config.iterations_per_task == 0:
            self._pool.enter(iteration // config.iterations_per_task)
        elif state is not self._given:
            self._pool.restore(state.pool)
        rows, probe = [], None
        for _ in range(config.iterations_per_chunk):
            learner, probe, row = self._iterate(learner, latest, iteration)
            rows.append(row)
            iteration += 1
        columns = {name: np.stack([row[name] for row in rows], axis=1) for name in rows[0]}
        if config.diagnostics:
            ranks = self._ranks(learner.params, probe)
            measured = {name: np.asarray(x) for name, x in ranks.items()}
            columns = disjoint(columns, in_last_row(measured, columns))
        done = np.full_like(state.iteration, iteration)
        self._given = self._state(learner, latest, done)
        return self._given, columns

    def memory(self) -> int:
        """Return the bytes that the updates on a rollout need of the device; nothing is run."""
        if not isinstance(self._learn, jax.stages.Compiled):
            self._learn = self._learn.lower(*self._arguments["_learn"]).compile()
        return planned_bytes(self._learn)

    def close(self) -> None:
        """End the workers."""
        if "_pool" in vars(self):
            self._pool.close()

    def _iterate(
        self, learner: Learner, latest: np.ndarray, iteration: int
    ) -> tuple[Learner, jax.Array, HostColumns]:
        """Make a rollout and the updates on it.

        Args:
          learner: the learner before the updates.
          latest: [lanes, environments], which is updated in place.
          iteration: the number of iterations done.

        Returns:
          The learner after the updates, observations for the diagnostics, and the row.
        """
        pool, config, number = self._pool, self._config, np.int32(iteration)
        tally, steps = self._tally(), list[Any]()
        for step in range(config.rollout):
            observation = pool.observation.copy()
            action, kept, log_prob = self._act(
                learner, self._keys, number, np.int32(step), observation
            )
            played = playable(action)
            pool.step_async(played if played.dtype.kind == "i" else np.clip(played, -1.0, 1.0))
            reached = pool.step_wait()
            arrays: Any = (observation, kept, log_prob)
            arrays += (reached.reward, reached.terminated, reached.truncated)
            seen = np.array(reached.observation) if config.truncation == "bootstrap" else ()
            steps.append(Rollout._make([*map(np.array, arrays), seen]))
            np.copyto(latest, reached.episode_return, where=reached.ended)
            tally.add(reached)
        rollout = jax.tree.map(lambda *each: np.stack(each, axis=1), *steps)
        learner, probe, said = self._learn(
            learner, rollout, pool.observation.copy(), self._keys, number, self._hyper
        )
        lanes = len(self._seeds)
        done = (iteration + 1) * config.rollout * config.environments
        columns = disjoint(
            {
                "step": np.full(lanes, done, np.int32),
                "task": np.full(lanes, iteration // config.iterations_per_task, np.int32),
            },
            {name: np.asarray(x) for name, x in said.items()},
            tally.columns(latest),
        )
        return learner, probe, columns

    def _start(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the initial `latest` and `iteration`."""
        lanes, environments = len(self._seeds), self._config.environments
        return np.full((lanes, environments), np.nan, np.float32), np.zeros(lanes, np.int32)

    def _state(self, learner: Any, latest: np.ndarray, iteration: np.ndarray) -> HostPPOState:
        pool = self._pool.state()
        return HostPPOState(self._keys, *learner, pool=pool, latest=latest, iteration=iteration)

    def _tally(self) -> Tally:
        return Tally(len(self._seeds), self._stream.metrics, self._nonfinite == "end")
