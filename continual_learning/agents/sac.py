"""Soft actor-critic on a stream of tasks, with continuous or discrete actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from continual_learning.agents.base import Hyper, MakeOptimizer, Trainer, strongly_typed
from continual_learning.agents.evaluate import Evaluation
from continual_learning.agents.network import (
    Network,
    optimizers_of,
    plasticity,
    ranks,
    reported,
)
from continual_learning.agents.replay import Experience, Replay, ReplayState
from continual_learning.agents.sac_actions import actions_of
from continual_learning.agents.sac_config import NUMBERS, SACConfig
from continual_learning.agents.sac_update import CRITICS, METRICS, Learner, apart, renewed, update
from continual_learning.agents.statistics import disjoint, in_last_row, statistics, tally
from continual_learning.agents.tasks import ACTIONS, BATCHES, NETWORK, PROBE, Tasks
from continual_learning.envs.base import Task
from continual_learning.envs.episodes import Episodes, Live
from continual_learning.envs.streams import TaskStream
from continual_learning.optim.branch import when


class SACState(NamedTuple):
    """What the next chunk reads.

    Attributes:
      key: the seed's; never changes.
      learner: networks, temperature and optimizers.
      replay: the transitions to learn from; apart, since it is large and grows by its end.
      episodes: `EpisodesState`, the environments.
      steps: int32 [], steps done.
    """

    key: jax.Array
    learner: Learner
    replay: ReplayState
    episodes: Any
    steps: jax.Array


def sac(
    policy: nn.Module,
    critic: nn.Module,
    episodes: Episodes,
    stream: TaskStream,
    optimizers: Mapping[str, MakeOptimizer],
    config: SACConfig,
) -> Trainer:
    """A trainer on a stream of tasks.

    Actions are discrete where the environment says how many `actions` it has; its observations
    are stored as bits where it says that they are `binary`.

    A row per `steps_per_row` steps: "step" (of all environments of the seed) and "task"; the
    task's parameters and the environment's metrics by their own names; `statistics` of the
    episodes; means over the updates of what `update` says, NaN if there were none; "alpha"; what
    is `reported` of the networks "policy", "critic_1" and "critic_2"; with diagnostics
    `plasticity` and, in the last row of a chunk, `ranks` (NaN in the others); with `eval_every`,
    there as well, what `Evaluation` says of the policy's likeliest actions.

    `hyper` may hold `NUMBERS`, in place of the config's; the rest goes to the optimizers of policy
    and critics, which refuse what they do not know.

    Args:
      policy: observations [batch, observation_size] -> logits [batch, actions], or
        [batch, 2·action_size], a `TanhGaussian`.
      critic: observations -> [batch, actions], or observations with actions
        [batch, observation_size + action_size] -> [batch, 1]. There are two copies of it.
      episodes: the environments, side by side.
      stream: what changes from task to task.
      optimizers: {"policy": …, "critic": …}, each makes an optimizer from the units of the network
        (with `attach_reset_method`, whose log is reported).
      config: sizes and numbers.
    """
    env, actions = episodes.env, actions_of(episodes.env)
    config.check_environments(episodes.count)
    replay = Replay(config.capacity, env.observation_size, getattr(env, "binary", False))
    tasks = Tasks(episodes, stream)
    evaluation = Evaluation(tasks, config.tasks, config.eval_episodes)
    seen = jax.ShapeDtypeStruct((1, env.observation_size), jnp.float32)
    done = jax.ShapeDtypeStruct((1, *actions.like.shape), actions.like.dtype)
    read = jax.eval_shape(actions.read, seen, done).shape[1]
    networks = {
        "policy": Network.of(policy, env.observation_size, actions.outputs, "policy"),
        "critic": Network.of(critic, read, actions.critic_outputs, "critic"),
    }
    make_optimizers = optimizers_of(networks, optimizers, NUMBERS)
    single = {"policy": networks["policy"], "critic_1": networks["critic"]}
    single["critic_2"] = networks["critic"]

    def numbers_of(hyper: Hyper) -> dict[str, Any]:
        own = {name: getattr(config, name) for name in NUMBERS}
        if own["target_entropy"] is None:
            own["target_entropy"] = actions.target_entropy
        return {name: hyper.get(name, number) for name, number in own.items()}

    def transformations(hyper: Hyper) -> dict[str, optax.GradientTransformationExtraArgs]:
        alpha = optax.adam(numbers_of(hyper)["alpha_learning_rate"])
        return {**make_optimizers(hyper), "alpha": optax.with_extra_args_support(alpha)}

    def begin(params: dict[str, Any], hyper: Hyper) -> Learner:
        """These networks, and all else as at the start."""
        made = transformations(hyper)
        log_alpha = jnp.log(jnp.asarray(numbers_of(hyper)["initial_alpha"], jnp.float32))
        states = {
            "policy": made["policy"].init(params["policy"]),
            "critic": jax.vmap(made["critic"].init)(params["critic"]),
            "alpha": made["alpha"].init(log_alpha),
        }
        return Learner(params, jax.tree.map(jnp.copy, params["critic"]), log_alpha, states)

    def init(key: jax.Array, hyper: Hyper, data: Any) -> SACState:
        keys = jax.random.split(jax.random.fold_in(key, NETWORK), 1 + CRITICS)
        params = {
            "policy": networks["policy"].init(keys[0]),
            "critic": jax.vmap(networks["critic"].init)(keys[1:]),
        }
        return strongly_typed(
            SACState(
                key,
                begin(params, hyper),
                replay.start(actions.like),
                tasks.start(key),
                jnp.zeros((), jnp.int32),
            )
        )

    def change(state: SACState, begins: jax.Array, hyper: Hyper) -> SACState:
        """What a new task resets of the learner, if it `begins` (bool [])."""
        old = state.learner
        changed = renewed(
            old,
            begin(old.params, hyper),
            optimizers=config.reset_optimizers,
            targets=config.reset_targets,
            alpha=config.reset_alpha,
        )
        learner = jax.tree.map(lambda new, old: jnp.where(begins, new, old), changed, old)
        return state._replace(learner=learner)

    def learn(learner: Learner, args: Any) -> tuple[Learner, jax.Array]:
        """The updates of a step, and the means of what they say of `METRICS`.

        These are one array: a scan writes each of its outputs by a kernel of its own.
        """
        batches, key, hyper = args
        made, numbers = transformations(hyper), numbers_of(hyper)

        def body(learner: Learner, each: Any) -> tuple[Learner, jax.Array]:
            learner, metrics = update(
                networks,
                actions,
                made,
                learner,
                *each,
                discount=numbers["discount"],
                tau=numbers["tau"],
                target_entropy=numbers["target_entropy"],
                log_alpha_bounds=config.log_alpha_bounds,
            )
            return learner, jnp.stack([metrics[name] for name in METRICS])

        keys = jax.random.split(key, config.replay_ratio)
        learner, found = jax.lax.scan(body, learner, (batches, keys))
        return learner, jnp.mean(found, axis=0)

    def step(state: SACState, live: Live, task: Task, hyper: Hyper) -> tuple[SACState, Live, Any]:
        """A step of all environments and the updates after it; what they gave and said."""

        def key(use: int) -> jax.Array:
            return jax.random.fold_in(jax.random.fold_in(state.key, use), state.steps)

        outputs = networks["policy"].apply(state.learner.params["policy"], live.observation)
        action = actions.sample(key(ACTIONS), outputs)
        after, reached = episodes.step(live, action, task)
        new = Experience(
            live.observation, action, reached.reward, reached.terminated, reached.observation
        )
        stored = replay.add(state.replay, new)
        draws, noise = jax.random.split(key(BATCHES))
        # Drawn before the branch: what passes into one may be copied, and the replay is large.
        batches = replay.sample(stored, draws, (config.replay_ratio, config.batch))
        args = batches, noise, hyper
        unsaid = jnp.full(len(METRICS), jnp.nan)
        due = after.state.steps * episodes.count >= config.learning_starts
        learner, metrics = when(
            due, lambda carry, args: learn(carry[0], args), (state.learner, unsaid), args
        )
        state = state._replace(learner=learner, replay=stored, steps=state.steps + 1)
        return state, after, (tally(reached), jnp.mean(reached.reward), metrics)

    def probe(state: SACState) -> dict[str, jax.Array]:
        """What to measure networks on."""
        key = jax.random.fold_in(jax.random.fold_in(state.key, PROBE), state.steps)
        drawn = replay.sample(state.replay, key, (config.probe,))
        read = actions.read(drawn.observation, drawn.action)
        return {"policy": drawn.observation, "critic_1": read, "critic_2": read}

    def evaluated(state: SACState) -> dict[str, jax.Array]:
        """Returns of the policy's likeliest actions, NaN where no evaluation is due."""

        def act(params: Any, observation: jax.Array) -> jax.Array:
            return actions.mode(networks["policy"].apply(params, observation))

        due = state.steps % config.eval_every == 0
        now = (state.steps - 1) // config.steps_per_task
        params = state.learner.params["policy"]
        return evaluation.if_due(due, act, params, state.key, state.steps, now)

    def row(
        state: SACState, live: Live, task: Task, hyper: Hyper
    ) -> tuple[SACState, Live, dict[str, jax.Array]]:
        """Some steps, and what there is to say of them."""

        def body(carry: tuple[SACState, Live], _: None) -> Any:
            state, live, said = step(*carry, task, hyper)
            return (state, live), said

        (state, live), (tallies, rewards, metrics) = jax.lax.scan(
            body, (state, live), length=config.steps_per_row
        )
        params, states = apart(state.learner.params), apart(state.learner.optimizers)
        found = {
            "step": state.steps * episodes.count,
            "task": (state.steps - 1) // config.steps_per_task,
            "alpha": jnp.exp(state.learner.log_alpha),
            **reported(params, states, norms=config.diagnostics),
        }
        if config.diagnostics:
            found |= plasticity(single, params, probe(state))
        learning = dict(zip(METRICS, jnp.nanmean(metrics, axis=0), strict=True))
        found = disjoint(found, learning, statistics(live, tallies, rewards), dict(task))
        return state, live, found

    def chunk(state: SACState, hyper: Hyper, data: Any) -> tuple[SACState, dict[str, jax.Array]]:
        number = state.steps // config.steps_per_task
        begins = state.steps % config.steps_per_task == 0
        task, live = tasks.enter(state.key, number, begins, state.episodes)
        state = change(state, begins, hyper)

        def body(carry: tuple[SACState, Live], _: None) -> Any:
            state, live, found = row(*carry, task, hyper)
            return (state, live), found

        # Of the episodes only what `live` holds is carried.
        carry = state._replace(episodes=()), live
        (state, live), rows = jax.lax.scan(body, carry, length=config.rows_per_chunk)
        if config.diagnostics:
            # A decomposition is expensive, hence once a chunk.
            measured = ranks(single, apart(state.learner.params), probe(state))
            rows = in_last_row(rows, measured)
        if config.eval_every:
            rows = in_last_row(rows, evaluated(state))
        # At the end of a task, not at the start of the next: nothing is left to keep between them.
        over = (state.steps % config.steps_per_task == 0) & config.reset_replay
        kept = replay.clear(state.replay, over)
        return strongly_typed(state._replace(replay=kept, episodes=live.state)), rows

    chunks = config.tasks * config.steps_per_task // config.steps_per_chunk
    return Trainer(init, chunk, chunks, (), "latest_return", ring="replay")
