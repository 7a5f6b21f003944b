"""The learner of PPO for environments in any place: pure functions of one seed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from continual_learning.agents.common.network import (
    Metrics,
    Network,
    optimizers_of,
    plasticity,
    ranks,
    reported,
)
from continual_learning.agents.common.normalizer import Normalizer
from continual_learning.agents.common.statistics import disjoint
from continual_learning.agents.common.tasks import ACTIONS, BATCHES, NETWORK, PROBE
from continual_learning.agents.common.trainer import Hyper, MakeOptimizer
from continual_learning.agents.ppo.actions import Actions, actions_of
from continual_learning.agents.ppo.config import PPOConfig
from continual_learning.agents.ppo.losses import explained_variance
from continual_learning.agents.ppo.returns import gae, shifted
from continual_learning.agents.ppo.rollout import Rollout
from continual_learning.agents.ppo.update import Params, Samples, improve, losses


class Learner(NamedTuple):
    """The parts of the state that an iteration changes.

    Attributes:
      params: the parameters of the networks, {"policy": …, "value": …}.
      optimizers: the states of their optimizers.
      normalizer: the statistics of the observations; () if they are not normalized.
    """

    params: Params
    optimizers: Params
    normalizer: Any


@dataclasses.dataclass(frozen=True)
class PPOLearner:
    """The networks and updates of PPO, for a caller that steps the environments.

    `key` is the key of the seed, and `iteration` int32 [] the number of iterations done. Random
    numbers depend only on these two.

    Attributes:
      networks: {"policy", "value"}.
      actions: the kind of actions.
      config: the sizes and numbers.
      make_optimizers: a function of hyper-parameters -> {"policy", "value"}.
      sample_scores: whether reset methods get per-sample scores.
    """

    networks: Mapping[str, Network]
    actions: Actions
    config: PPOConfig
    make_optimizers: Callable[[Hyper], dict[str, optax.GradientTransformationExtraArgs]]
    sample_scores: bool = False

    @classmethod
    def of(
        cls,
        policy: nn.Module,
        value: nn.Module,
        env: Any,
        optimizers: Mapping[str, MakeOptimizer],
        config: PPOConfig,
        sample_scores: bool = False,
    ) -> PPOLearner:
        """Return a learner for an environment.

        Args:
          policy: the policy network, the same as in `ppo`.
          value: the value network, the same as in `ppo`.
          env: an environment, or a stream of tasks on the host.
          optimizers: the functions that make the optimizers of both networks.
          config: the sizes and numbers.
          sample_scores: whether reset methods get per-sample scores.
        """
        actions = actions_of(env)
        networks = {
            "policy": Network.of(policy, env.observation_size, actions.outputs, "policy"),
            "value": Network.of(value, env.observation_size, 1, "value"),
        }
        makers = optimizers_of(networks, optimizers, config.numbers())
        return cls(networks, actions, config, makers, sample_scores)

    @property
    def inputs(self) -> int:
        """The number of entries of an observation."""
        return self.networks["policy"].inputs

    def init(self, key: jax.Array, hyper: Hyper) -> Learner:
        """Return a new learner."""
        keys = jax.random.split(jax.random.fold_in(key, NETWORK))
        params = {n: net.init(k) for (n, net), k in zip(self.networks.items(), keys, strict=True)}
        states = {n: tx.init(params[n]) for n, tx in self.make_optimizers(hyper).items()}
        normalized = self.config.normalize_observations
        return Learner(params, states, Normalizer.start(self.inputs) if normalized else ())

    def act(
        self,
        learner: Learner,
        key: jax.Array,
        iteration: jax.Array,
        step: jax.Array,
        observation: jax.Array,
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Draw actions from the policy.

        Args:
          learner: the learner, which has the policy.
          key: the key of the seed.
          iteration: int32 [], the number of iterations done.
          step: int32 [], the number of the step in the rollout.
          observation: [envs, observation_size].

        Returns:
          Actions [envs, …], the same in the form in which they are kept [envs, size], and the log
          densities [envs] for the ratios of the updates.
        """
        config, limit = self.config, self.config.action_limit
        seen = self._seen(learner, observation)
        outputs = self.networks["policy"].apply(learner.params["policy"], seen)
        distribution = self.actions.policy(outputs)
        draw = jax.random.fold_in(_key(key, ACTIONS, iteration), step)
        sampled = action = distribution.sample(draw)
        if limit is not None:
            action = jnp.clip(sampled, -limit, limit)
        of = action if config.log_prob_of == "applied" else sampled
        return action, self.actions.kept(action), distribution.log_prob(of)

    def learn(
        self,
        learner: Learner,
        rollout: Rollout,
        last: jax.Array,
        key: jax.Array,
        iteration: jax.Array,
        hyper: Hyper,
    ) -> tuple[Learner, jax.Array, Metrics]:
        """Make the updates on a rollout.

        Args:
          learner: the learner before the updates.
          rollout: the rollout, with observations that are not normalized.
          last: [envs, observation_size], the observations to act on next, not normalized.
          key: the key of the seed.
          iteration: int32 [], the number of iterations done.
          hyper: the traced numbers.

        Returns:
          The learner after the updates, observations for the diagnostics
          [probe, observation_size], and metrics: those of `improve`, "explained_variance", with an
          action limit "clipped_actions" (the share of the actions' entries at the limit), those of
          `reported`, and with diagnostics those of `plasticity`.
        """
        config, networks = self.config, self.networks
        own = {name: hyper.get(name, getattr(config, name)) for name in config.numbers()}
        normalizer = learner.normalizer
        seen = rollout._replace(
            observation=self._seen(learner, rollout.observation),
            reached=self._seen(learner, rollout.reached),
        )
        if config.normalize_observations:
            normalizer = normalizer.update(rollout.observation.reshape(-1, self.inputs))
        samples, explained = self._samples(learner, seen, self._seen(learner, last), own)
        params, states, learning = improve(
            losses(
                networks,
                self.actions,
                clip_ratio=own["clip_ratio"],
                entropy_coefficient=own["entropy_coefficient"],
                value_coefficient=config.value_coefficient,
                normalize_advantages=config.normalize_advantages,
            ),
            self.make_optimizers(hyper),
            learner.params,
            learner.optimizers,
            samples,
            _key(key, BATCHES, iteration),
            epochs=config.epochs,
            minibatches=config.minibatches,
            task=iteration // config.iterations_per_task,
            scored={n: net.units for n, net in networks.items()} if self.sample_scores else {},
        )
        draws = _key(key, PROBE, iteration)
        chosen = jax.random.randint(draws, (config.probe,), 0, len(samples.observation))
        probe = samples.observation[chosen]
        said = {"explained_variance": explained}
        if config.action_limit is not None:
            said["clipped_actions"] = jnp.mean(jnp.abs(rollout.action) >= config.action_limit)
        said |= reported(params, states, norms=config.diagnostics)
        if config.diagnostics:
            said |= plasticity(networks, params, dict.fromkeys(networks, probe))
        return Learner(params, states, normalizer), probe, disjoint(said, learning)

    def ranks(self, params: Params, probe: jax.Array) -> Metrics:
        """Return the ranks of the features, apart from `learn` since they are expensive."""
        return ranks(self.networks, params, dict.fromkeys(self.networks, probe))

    def _seen(self, learner: Learner, observation: Any) -> Any:
        """Return observations as the networks see them."""
        if not self.config.normalize_observations or isinstance(observation, tuple):
            return observation
        return learner.normalizer.normalize(observation)

    def _samples(
        self, learner: Learner, rollout: Rollout, last: jax.Array, own: Mapping[str, Any]
    ) -> tuple[Samples, jax.Array]:
        """Return the samples of a rollout, and the share of the variance that the values explained.

        Args:
          learner: the learner.
          rollout: the rollout, with observations as the networks see them.
          last: [envs, observation_size], the observations to act on next, likewise.
          own: the numbers of the agent.
        """
        config, params = self.config, learner.params["value"]

        def values_of(observation: jax.Array) -> jax.Array:
            return self.networks["value"].apply(params, observation)[..., 0]

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
            discount=own["discount"],
            gae_lambda=own["gae_lambda"],
            truncation=config.truncation,
        )
        samples = Samples(
            rollout.observation, rollout.action, rollout.log_prob, advantages, targets
        )
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), samples)
        return flat, explained_variance(values, targets)


def _key(key: jax.Array, use: int, iteration: jax.Array) -> jax.Array:
    return jax.random.fold_in(jax.random.fold_in(key, use), iteration)
