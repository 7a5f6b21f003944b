"""Soft actor-critic on a stream of tasks, with continuous or discrete actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from continual_learning.agents.common.evaluate import Evaluation
from continual_learning.agents.common.statistics import disjoint, in_last_row, statistics, tally
from continual_learning.agents.common.tasks import DISTURBANCE, Tasks
from continual_learning.agents.common.trainer import (
    COMPILER_OPTIONS,
    WHOLE_LOOPS,
    Hyper,
    MakeOptimizer,
    Trainer,
    strongly_typed,
)
from continual_learning.agents.sac.config import SACConfig
from continual_learning.agents.sac.learner import SACLearner
from continual_learning.agents.sac.published_return import PublishedReturn
from continual_learning.agents.sac.replay import Experience, ReplayState
from continual_learning.agents.sac.update import METRICS, Learner
from continual_learning.envs.base import Task
from continual_learning.envs.catalog import OnDevice
from continual_learning.envs.episodes import Episodes, Live

SEPARATE_PRODUCTS = {"xla_gpu_dot_merger_threshold_mb": "0"}
"""The policy reads the observations acted on and those reached. The compiler would merge the two
products, which have the same weights, only to copy the halves of the result out again."""


class SACState(NamedTuple):
    """The state that the next chunk reads.

    Attributes:
      key: the key of the seed, which never changes.
      learner: the networks, temperature and optimizers.
      replay: the transitions to learn from, apart from the learner since they are large and a
        checkpoint writes only new ones.
      episodes: the state of the environments, an `EpisodesState`.
      steps: int32 [], the number of steps done.
      sums: the `Sums` of a `PublishedReturn`; () without it.
    """

    key: jax.Array
    learner: Learner
    replay: ReplayState
    episodes: Any
    steps: jax.Array
    sums: Any = ()


def sac(
    policy: nn.Module,
    critic: nn.Module,
    problem: OnDevice,
    optimizers: Mapping[str, MakeOptimizer],
    config: SACConfig,
    *,
    tasks: int,
    sample_scores: bool = False,
    published_every: int = 0,
) -> Trainer:
    """Return a trainer on a stream of tasks.

    Actions are discrete if the environment has `actions`, and observations are stored as bits if
    it says that they are `binary`.

    There is a row per `steps_per_row` steps, with these columns: "step" (the number of steps of
    all environments of the seed) and "task"; the task's parameters and the environment's metrics
    by their own names; `statistics` of the episodes; the means of the metrics of `update` over the
    updates, NaN if there were none; "alpha"; the metrics of `reported` for the networks "policy",
    "critic_1" and "critic_2"; with diagnostics `plasticity` and, in the last row of a chunk,
    `ranks` (NaN in the others); with `eval_every`, also in the last row, the columns of an
    `Evaluation` of the policy's likeliest actions; with `published_every`, "published_return".

    `hyper` may have values for `config.numbers()`, which replace those of the config. The
    optimizers of policy and critics get the rest, and refuse names that they do not know.

    Args:
      policy: a module of observations [batch, observation_size] -> logits [batch, actions], or
        [batch, 2·action_size] for a `TanhGaussian`.
      critic: a module of observations -> [batch, actions], or of observations with actions
        [batch, observation_size + action_size] -> [batch, 1]. The agent has two copies of it.
      problem: the environment and the stream of its tasks.
      optimizers: {"policy": …, "critic": …}, functions that make an optimizer from the units of a
        network (with `attach_reset_method`, whose log is reported).
      config: the sizes and numbers.
      tasks: the number of tasks of the run.
      sample_scores: whether reset methods get per-sample scores.
      published_every: the number of environment steps between evaluations in the training
        environments, as the published trainer makes them (see `PublishedReturn`); 0 for none.
    """
    env = problem.stream.environment
    episodes = Episodes(env, config.environments, problem.length, problem.restart)
    learning = SACLearner.of(policy, critic, env, optimizers, config, sample_scores)
    replay, on_tasks = learning.replay, Tasks(episodes, problem.stream)
    evaluation = Evaluation(on_tasks, tasks, config.eval_episodes)
    published = PublishedReturn(episodes, published_every) if published_every else None

    def init(key: jax.Array, hyper: Hyper, data: Any) -> SACState:
        return strongly_typed(
            SACState(
                key,
                learning.init(key, hyper),
                replay.start(learning.actions.like),
                on_tasks.start(key),
                jnp.zeros((), jnp.int32),
                published.start() if published else (),
            )
        )

    def step(state: SACState, live: Live, task: Task, hyper: Hyper) -> tuple[SACState, Live, Any]:
        """Step all environments once, make the updates after it, and return their metrics."""
        params = state.learner.params["policy"]
        action = learning.act(params, state.key, state.steps, live.observation)
        if published:
            disturbed = jax.random.fold_in(state.key, DISTURBANCE)
            live = published.evaluate_if_due(live, learning.likeliest, params, disturbed, task)
        after, reached = episodes.step(live, action, task)
        if published:
            state = state._replace(sums=published.add(state.sums, reached))
        new = Experience(
            live.observation, action, reached.reward, reached.terminated, reached.observation
        )
        stored = replay.add(state.replay, new)
        due = after.state.steps * episodes.count >= config.learning_starts
        # The draw is outside the branch, which may copy its inputs, and the replay is large.
        drawn = learning.draw(stored, state.key, state.steps)
        number = state.steps // config.vector_steps_per_task
        learner, metrics = learning.learn(state.learner, drawn, number, hyper, due)
        state = state._replace(learner=learner, replay=stored, steps=state.steps + 1)
        return state, after, (tally(reached), jnp.mean(reached.reward), (metrics, due))

    def evaluated(state: SACState) -> dict[str, jax.Array]:
        """Return the returns of the policy's likeliest actions, NaN if no evaluation is due."""
        due = state.steps % config.eval_every == 0
        now = (state.steps - 1) // config.vector_steps_per_task
        params = state.learner.params["policy"]
        return evaluation.if_due(due, learning.likeliest, params, state.key, state.steps, now)

    def row(
        state: SACState, live: Live, task: Task, hyper: Hyper
    ) -> tuple[SACState, Live, dict[str, jax.Array]]:
        """Make the steps of a row, and return the row."""

        def body(carry: tuple[SACState, Live], _: None) -> Any:
            state, live, said = step(*carry, task, hyper)
            return (state, live), said

        (state, live), (tallies, rewards, (metrics, learned)) = jax.lax.scan(
            body, (state, live), length=config.steps_per_row
        )
        found = {
            "step": state.steps * episodes.count,
            "task": (state.steps - 1) // config.vector_steps_per_task,
            **learning.describe(state.learner, state.replay, state.key, state.steps),
        }
        # This mean keeps NaN, so that the row shows an update whose metrics are NaN.
        means = jnp.sum(metrics, axis=0) / jnp.sum(learned)
        said = dict(zip(METRICS, means, strict=True))
        found = disjoint(found, said, statistics(live, tallies, rewards), dict(task))
        if published:
            found["published_return"] = published.value(state.sums)
        return state, live, found

    def chunk(state: SACState, hyper: Hyper, data: Any) -> tuple[SACState, dict[str, jax.Array]]:
        number = state.steps // config.vector_steps_per_task
        begins = state.steps % config.vector_steps_per_task == 0
        task, live = on_tasks.enter(state.key, number, begins, state.episodes)
        state = state._replace(learner=learning.change(state.learner, begins, hyper))
        if published:
            sums = jax.tree.map(
                lambda new, old: jnp.where(begins, new, old), published.start(), state.sums
            )
            state = state._replace(sums=sums)

        def body(carry: tuple[SACState, Live], _: None) -> Any:
            state, live, found = row(*carry, task, hyper)
            return (state, live), found

        # The scan carries the episodes only in `live`.
        carry = state._replace(episodes=()), live
        (state, live), rows = jax.lax.scan(body, carry, length=config.rows_per_chunk)
        if config.diagnostics:
            measured = learning.ranks(state.learner, state.replay, state.key, state.steps)
            rows = in_last_row(rows, measured)
        if config.eval_every:
            rows = in_last_row(rows, evaluated(state))
        # The end of a task clears the replay, not the start of the next one, so that a checkpoint
        # between them has nothing to keep.
        over = (state.steps % config.vector_steps_per_task == 0) & config.reset_replay
        kept = replay.clear(state.replay, over)
        return strongly_typed(state._replace(replay=kept, episodes=live.state)), rows

    # With evaluations in training, a program whose loops the GPU decides never made a step on an
    # H200 (JAX 0.11.2): they are a loop within a branch within a loop.
    own = SEPARATE_PRODUCTS | (COMPILER_OPTIONS if published else WHOLE_LOOPS)
    options = {**own, **problem.options}
    chunks = config.chunks(tasks)
    return Trainer(init, chunk, chunks, (), "latest_return", ring="replay", options=options)
