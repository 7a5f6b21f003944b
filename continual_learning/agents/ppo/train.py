"""Proximal policy optimisation on a stream of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from continual_learning.agents.common.network import (
    Network,
    optimizers_of,
    plasticity,
    ranks,
    reported,
)
from continual_learning.agents.common.normalizer import Normaliser
from continual_learning.agents.common.statistics import disjoint, in_last_row
from continual_learning.agents.common.tasks import ACTIONS, BATCHES, NETWORK, PROBE, Tasks
from continual_learning.agents.common.trainer import Hyper, MakeOptimizer, Trainer, strongly_typed
from continual_learning.agents.ppo.config import NUMBERS, PPOConfig
from continual_learning.agents.ppo.losses import explained_variance
from continual_learning.agents.ppo.returns import gae, shifted
from continual_learning.agents.ppo.rollout import Rollout, collect
from continual_learning.agents.ppo.update import Params, Samples, improve, losses
from continual_learning.envs.base import Task
from continual_learning.envs.episodes import Episodes, Live
from continual_learning.envs.streams import TaskStream
from continual_learning.networks import DiagonalGaussian


class PPOState(NamedTuple):
    """What the next chunk reads.

    Attributes:
      key: the seed's; never changes.
      params: of the networks, {"policy": …, "value": …}.
      optimizers: states of their optimizers.
      normaliser: statistics of the observations; () if they are not normalised.
      episodes: `EpisodesState`, the environments.
      iteration: int32 [], iterations done.
    """

    key: jax.Array
    params: Params
    optimizers: Params
    normaliser: Any
    episodes: Any
    iteration: jax.Array


def ppo(
    policy: nn.Module,
    value: nn.Module,
    episodes: Episodes,
    stream: TaskStream,
    optimizers: Mapping[str, MakeOptimizer],
    config: PPOConfig,
) -> Trainer:
    """A trainer on a stream of tasks.

    A row per iteration: "step" (of all environments of the seed) and "task"; the task's
    parameters and the environment's metrics by their own names; `statistics` of the
    episodes; what `improve` says of the updates; "explained_variance"; with an action limit
    "clipped_actions", the share of the actions' entries at it; what is `reported` of the
    networks; with diagnostics `plasticity` and, in the last row of a chunk, `ranks` (NaN in the
    others).

    `hyper` may hold `NUMBERS`, in place of the config's; the rest goes to both optimizers, which
    refuse what they do not know.

    Args:
      policy: observations [batch, observation_size] -> [batch, 2·action_size], a
        `DiagonalGaussian`.
      value: observations -> [batch, 1].
      episodes: the environments, side by side.
      stream: what changes from task to task.
      optimizers: {"policy": …, "value": …}, each makes an optimizer from the units of the network
        (with `attach_reset_method`, whose log is reported).
      config: sizes and numbers.
    """
    env, limit = episodes.env, config.action_limit
    config.check_environments(episodes.count)
    networks = {
        "policy": Network.of(policy, env.observation_size, 2 * env.action_size, "policy"),
        "value": Network.of(value, env.observation_size, 1, "value"),
    }

    make_optimizers = optimizers_of(networks, optimizers, NUMBERS)
    tasks = Tasks(episodes, stream)

    def init(key: jax.Array, hyper: Hyper, data: Any) -> PPOState:
        keys = jax.random.split(jax.random.fold_in(key, NETWORK))
        params = {n: net.init(k) for (n, net), k in zip(networks.items(), keys, strict=True)}
        return strongly_typed(
            PPOState(
                key,
                params,
                {name: tx.init(params[name]) for name, tx in make_optimizers(hyper).items()},
                Normaliser.start(env.observation_size) if config.normalise_observations else (),
                tasks.start(key),
                jnp.zeros((), jnp.int32),
            )
        )

    def samples_of(
        rollout: Rollout, last: jax.Array, params: Any, numbers: Mapping[str, Any]
    ) -> tuple[Samples, jax.Array]:
        """What to learn from a rollout, and how much of it the values explained.

        Args:
          rollout: with observations as the networks see them.
          last: [envs, observation_size], what would be acted on next, likewise.
          params: of the value network.
          numbers: `NUMBERS`.
        """

        def values_of(observation: jax.Array) -> jax.Array:
            return networks["value"].apply(params, observation)[..., 0]

        rewards = rollout.reward * config.reward_scale
        if config.reward_floor is not None or config.reward_ceiling is not None:
            rewards = jnp.clip(rewards, config.reward_floor, config.reward_ceiling)
        values = values_of(rollout.observation)
        if config.truncation == "bootstrap":
            next_values = values_of(rollout.reached)
        else:
            next_values = shifted(values, values_of(last))
        targets, advantages = gae(
            rewards,
            values,
            next_values,
            rollout.terminated,
            rollout.truncated,
            discount=numbers["discount"],
            gae_lambda=numbers["gae_lambda"],
            truncation=config.truncation,
        )
        samples = Samples(
            rollout.observation, rollout.action, rollout.log_prob, advantages, targets
        )
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), samples)
        return flat, explained_variance(values, targets)

    def iterate(
        state: PPOState, live: Live, task: Task, hyper: Hyper
    ) -> tuple[PPOState, Live, jax.Array, dict[str, jax.Array]]:
        """One rollout and the updates on it; also observations to measure on, and the row."""
        numbers = {name: hyper.get(name, getattr(config, name)) for name in NUMBERS}

        def key(use: int) -> jax.Array:
            return jax.random.fold_in(jax.random.fold_in(state.key, use), state.iteration)

        def seen(observation: Any) -> Any:
            if not config.normalise_observations or isinstance(observation, tuple):
                return observation
            return state.normaliser.normalise(observation)

        def act(key: jax.Array, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
            outputs = networks["policy"].apply(state.params["policy"], seen(observation))
            gaussian = DiagonalGaussian.from_outputs(outputs)
            sampled = action = gaussian.sample(key)
            if limit is not None:
                action = jnp.clip(sampled, -limit, limit)
            of = action if config.log_prob_of == "applied" else sampled
            return action, gaussian.log_prob(of)

        live, rollout, statistics = collect(
            episodes,
            live,
            task,
            act,
            key(ACTIONS),
            steps=config.rollout,
            keep_reached=config.truncation == "bootstrap",
        )
        normaliser = state.normaliser
        if config.normalise_observations:
            normaliser = normaliser.update(rollout.observation.reshape(-1, env.observation_size))
            rollout = rollout._replace(
                observation=seen(rollout.observation), reached=seen(rollout.reached)
            )
        samples, explained = samples_of(
            rollout, seen(live.observation), state.params["value"], numbers
        )
        params, states, learning = improve(
            losses(
                networks,
                clip_ratio=numbers["clip_ratio"],
                entropy_coefficient=numbers["entropy_coefficient"],
                value_coefficient=config.value_coefficient,
                normalise_advantages=config.normalise_advantages,
            ),
            make_optimizers(hyper),
            state.params,
            state.optimizers,
            samples,
            key(BATCHES),
            epochs=config.epochs,
            minibatches=config.minibatches,
            scored={n: net.units for n, net in networks.items()} if config.sample_scores else {},
        )
        chosen = jax.random.randint(key(PROBE), (config.probe,), 0, len(samples.observation))
        probe = samples.observation[chosen]
        iteration = state.iteration + 1
        row = {
            "step": iteration * (config.rollout * episodes.count),
            "task": state.iteration // config.iterations_per_task,
            "explained_variance": explained,
        }
        if limit is not None:
            row["clipped_actions"] = jnp.mean(jnp.abs(rollout.action) >= limit)
        row |= reported(params, states, norms=config.diagnostics)
        if config.diagnostics:
            row |= plasticity(networks, params, dict.fromkeys(networks, probe))
        row = disjoint(row, learning, statistics, dict(task))
        state = PPOState(state.key, params, states, normaliser, (), iteration)
        return state, live, probe, row

    def chunk(state: PPOState, hyper: Hyper, data: Any) -> tuple[PPOState, dict[str, jax.Array]]:
        number = state.iteration // config.iterations_per_task
        begins = state.iteration % config.iterations_per_task == 0
        task, live = tasks.enter(state.key, number, begins, state.episodes)

        def body(carry: Any, _: None) -> Any:
            state, live, _ = carry
            state, live, probe, row = iterate(state, live, task, hyper)
            return (state, live, probe), row

        # Of the episodes only what `live` holds is carried, of the observations only a probe.
        probe = jnp.zeros((config.probe, env.observation_size), jnp.float32)
        carry = state._replace(episodes=()), live, probe
        (state, live, probe), rows = jax.lax.scan(body, carry, length=config.iterations_per_chunk)
        if config.diagnostics:
            # A decomposition is expensive, hence once a chunk.
            measured = ranks(networks, state.params, dict.fromkeys(networks, probe))
            rows = in_last_row(rows, measured)
        return strongly_typed(state._replace(episodes=live.state)), rows

    chunks = config.tasks * config.iterations_per_task // config.iterations_per_chunk
    return Trainer(init, chunk, chunks, (), "latest_return")
