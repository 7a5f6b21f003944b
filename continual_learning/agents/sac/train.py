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

OPTIONS = WHOLE_LOOPS | {"xla_gpu_dot_merger_threshold_mb": "0"}
"""The policy reads what was acted on and what was reached: products with the same weights, which
the compiler would join only to copy the halves of the result out again."""


class SACState(NamedTuple):
    """What the next chunk reads.

    Attributes:
      key: the seed's; never changes.
      learner: networks, temperature and optimizers.
      replay: the transitions to learn from; apart, since it is large and grows by its end.
      episodes: `EpisodesState`, the environments.
      steps: int32 [], steps done.
      sums: `Sums` of a `PublishedReturn`; () without it.
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

    Actions are discrete where the environment says how many `actions` it has; its observations
    are stored as bits where it says that they are `binary`.

    A row per `steps_per_row` steps: "step" (of all environments of the seed) and "task"; the
    task's parameters and the environment's metrics by their own names; `statistics` of the
    episodes; means over the updates of what `update` says, NaN if there were none; "alpha"; what
    is `reported` of the networks "policy", "critic_1" and "critic_2"; with diagnostics
    `plasticity` and, in the last row of a chunk, `ranks` (NaN in the others); with `eval_every`,
    there as well, what `Evaluation` says of the policy's likeliest actions; with
    `published_every`, "published_return".

    `hyper` may hold `config.numbers()`, in place of the config's; the rest goes to the optimizers
    of policy and critics, which refuse what they do not know.

    Args:
      policy: observations [batch, observation_size] -> logits [batch, actions], or
        [batch, 2·action_size], a `TanhGaussian`.
      critic: observations -> [batch, actions], or observations with actions
        [batch, observation_size + action_size] -> [batch, 1]. There are two copies of it.
      problem: the environment, and what changes from task to task.
      optimizers: {"policy": …, "critic": …}, each makes an optimizer from the units of the network
        (with `attach_reset_method`, whose log is reported).
      config: sizes and numbers.
      tasks: how many there will be.
      sample_scores: whether reset methods are given per-sample scores.
      published_every: environment steps between evaluations that play in the training
        environments, as the published trainer's do; see `PublishedReturn`. 0 for none.
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
        """A step of all environments and the updates after it; what they gave and said."""
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
        # Drawn before it: what passes into a branch may be copied, and the replay is large.
        drawn = learning.draw(stored, state.key, state.steps)
        learner, metrics = learning.learn(state.learner, drawn, hyper, due)
        state = state._replace(learner=learner, replay=stored, steps=state.steps + 1)
        return state, after, (tally(reached), jnp.mean(reached.reward), (metrics, due))

    def evaluated(state: SACState) -> dict[str, jax.Array]:
        """Returns of the policy's likeliest actions, NaN where no evaluation is due."""
        due = state.steps % config.eval_every == 0
        now = (state.steps - 1) // config.vector_steps_per_task
        params = state.learner.params["policy"]
        return evaluation.if_due(due, learning.likeliest, params, state.key, state.steps, now)

    def row(
        state: SACState, live: Live, task: Task, hyper: Hyper
    ) -> tuple[SACState, Live, dict[str, jax.Array]]:
        """Some steps, and what there is to say of them."""

        def body(carry: tuple[SACState, Live], _: None) -> Any:
            state, live, said = step(*carry, task, hyper)
            return (state, live), said

        (state, live), (tallies, rewards, (metrics, learnt)) = jax.lax.scan(
            body, (state, live), length=config.steps_per_row
        )
        found = {
            "step": state.steps * episodes.count,
            "task": (state.steps - 1) // config.vector_steps_per_task,
            **learning.describe(state.learner, state.replay, state.key, state.steps),
        }
        # Not a mean that leaves out NaN: that of an update is to be seen.
        means = jnp.sum(metrics, axis=0) / jnp.sum(learnt)
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

        # Of the episodes only what `live` holds is carried.
        carry = state._replace(episodes=()), live
        (state, live), rows = jax.lax.scan(body, carry, length=config.rows_per_chunk)
        if config.diagnostics:
            measured = learning.ranks(state.learner, state.replay, state.key, state.steps)
            rows = in_last_row(rows, measured)
        if config.eval_every:
            rows = in_last_row(rows, evaluated(state))
        # At the end of a task, not at the start of the next: nothing is left to keep between them.
        over = (state.steps % config.vector_steps_per_task == 0) & config.reset_replay
        kept = replay.clear(state.replay, over)
        return strongly_typed(state._replace(replay=kept, episodes=live.state)), rows

    options = {**OPTIONS, **problem.options}
    chunks = config.chunks(tasks)
    return Trainer(init, chunk, chunks, (), "latest_return", ring="replay", options=options)
