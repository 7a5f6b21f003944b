"""The learner of soft actor-critic for environments in any place: pure functions of one seed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

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
from continual_learning.agents.common.tasks import ACTIONS, BATCHES, NETWORK, PROBE
from continual_learning.agents.common.trainer import Hyper, MakeOptimizer
from continual_learning.agents.sac.actions import Actions, Problem, actions_of
from continual_learning.agents.sac.config import SACConfig
from continual_learning.agents.sac.replay import Experience, Replay, ReplayState
from continual_learning.agents.sac.update import CRITICS, METRICS, Learner, apart, renewed, update
from continual_learning.optim.branch import when


@dataclasses.dataclass(frozen=True)
class SACLearner:
    """The networks, replay and updates of SAC, for a caller that steps the environments.

    `key` is the key of the seed, and `steps` int32 [] the number of steps done. Random numbers
    depend only on these two.

    Attributes:
      networks: {"policy", "critic"}.
      actions: the kind of actions.
      replay: the buffer of transitions.
      config: the sizes and numbers.
      make_optimizers: a function of hyper-parameters -> {"policy", "critic"}.
      sample_scores: whether reset methods get per-sample scores.
    """

    networks: Mapping[str, Network]
    actions: Actions
    replay: Replay
    config: SACConfig
    make_optimizers: Callable[[Hyper], dict[str, optax.GradientTransformationExtraArgs]]
    sample_scores: bool = False

    @classmethod
    def of(
        cls,
        policy: nn.Module,
        critic: nn.Module,
        env: Problem,
        optimizers: Mapping[str, MakeOptimizer],
        config: SACConfig,
        sample_scores: bool = False,
    ) -> SACLearner:
        """Return a learner for an environment.

        Args:
          policy: the policy network, the same as in `sac`.
          critic: the critic, the same as in `sac`.
          env: an environment, or a stream of tasks on the host.
          optimizers: the functions that make the optimizers, the same as in `sac`.
          config: the sizes and numbers.
          sample_scores: whether reset methods get per-sample scores.
        """
        actions = actions_of(env)
        seen = jax.ShapeDtypeStruct((1, env.observation_size), jnp.float32)
        done = jax.ShapeDtypeStruct((1, *actions.like.shape), actions.like.dtype)
        read = jax.eval_shape(actions.read, seen, done).shape[1]
        networks = {
            "policy": Network.of(policy, env.observation_size, actions.outputs, "policy"),
            "critic": Network.of(critic, read, actions.critic_outputs, "critic"),
        }
        replay = Replay(config.capacity, env.observation_size, getattr(env, "binary", False))
        makers = optimizers_of(networks, optimizers, config.numbers())
        return cls(networks, actions, replay, config, makers, sample_scores)

    def init(self, key: jax.Array, hyper: Hyper) -> Learner:
        """Return a new learner."""
        keys = jax.random.split(jax.random.fold_in(key, NETWORK), 1 + CRITICS)
        params = {
            "policy": self.networks["policy"].init(keys[0]),
            "critic": jax.vmap(self.networks["critic"].init)(keys[1:]),
        }
        return self._begin(params, hyper)

    def change(self, old: Learner, begins: jax.Array, hyper: Hyper) -> Learner:
        """Reset the parts of a learner that begin anew in a new task.

        Args:
          old: the learner.
          begins: bool [], whether a new task begins; if not, the learner stays the same.
          hyper: the traced numbers.
        """
        changed = renewed(
            old,
            self._begin(old.params, hyper),
            optimizers=self.config.reset_optimizers,
            targets=self.config.reset_targets,
            alpha=self.config.reset_alpha,
        )
        return jax.tree.map(lambda new, old: jnp.where(begins, new, old), changed, old)

    def act(
        self, params: Any, key: jax.Array, steps: jax.Array, observation: jax.Array
    ) -> jax.Array:
        """Draw actions from the policy.

        Args:
          params: the parameters of the policy.
          key: the key of the seed.
          steps: int32 [], the number of steps done.
          observation: [envs, observation_size].
        """
        outputs = self.networks["policy"].apply(params, observation)
        return self.actions.sample(_key(key, ACTIONS, steps), outputs)

    def likeliest(self, params: Any, observation: jax.Array) -> jax.Array:
        """Return the likeliest actions of the policy, without noise."""
        return self.actions.mode(self.networks["policy"].apply(params, observation))

    def draw(
        self, stored: ReplayState, key: jax.Array, steps: jax.Array
    ) -> tuple[Experience, jax.Array]:
        """Draw the batches [replay_ratio, batch, …] for the updates of a step, and a key for noise.

        Args:
          stored: the transitions.
          key: the key of the seed.
          steps: int32 [], the number of steps done.
        """
        draws, noise = jax.random.split(_key(key, BATCHES, steps))
        shape = (self.config.replay_ratio, self.config.batch)
        return self.replay.sample(stored, draws, shape), noise

    def learn(
        self,
        learner: Learner,
        drawn: tuple[Experience, jax.Array],
        task: jax.Array,
        hyper: Hyper,
        due: bool | jax.Array = True,
    ) -> tuple[Learner, jax.Array]:
        """Make the updates of a step.

        Args:
          learner: the learner before the updates.
          drawn: the result of `draw`.
          task: int32 [], the number of the task.
          hyper: the traced numbers of the seed.
          due: bool [], whether to make updates; if not, the learner stays the same, and its metrics
            are 0. On a CPU, this is a branch. On other devices, updates that are not due are
            computed but not applied, because a branch would copy the whole learner in every step,
            which costs more than the updates of the few steps before learning starts.

        Returns:
          The learner after the updates, and the means of `METRICS` over them. These are one array,
          because a scan needs a kernel for every output.
        """
        if due is True:
            return self._learn(learner, drawn, task, hyper, due)
        unsaid = jnp.zeros(len(METRICS))
        if jax.default_backend() != "cpu":
            learner, said = self._learn(learner, drawn, task, hyper, due)
            return learner, jnp.where(due, said, unsaid)
        return when(
            jnp.asarray(due),
            lambda carry, args: self._learn(carry[0], *args, True),
            (learner, unsaid),
            (drawn, task, hyper),
        )

    def _learn(
        self,
        learner: Learner,
        drawn: tuple[Experience, jax.Array],
        task: jax.Array,
        hyper: Hyper,
        due: bool | jax.Array,
    ) -> tuple[Learner, jax.Array]:
        (batches, noise), made = drawn, self._transformations(hyper)
        numbers = self._numbers(hyper)

        def body(learner: Learner, each: Any) -> tuple[Learner, jax.Array]:
            updated, metrics = update(
                self.networks,
                self.actions,
                made,
                learner,
                *each,
                task=task,
                discount=numbers["discount"],
                tau=numbers["tau"],
                target_entropy=numbers["target_entropy"],
                log_alpha_bounds=self._log_alpha_bounds,
                sample_scores=self.sample_scores,
            )
            if due is not True:
                updated = jax.tree.map(lambda new, old: jnp.where(due, new, old), updated, learner)
            return updated, jnp.stack([metrics[name] for name in METRICS])

        keys = jax.random.split(noise, self.config.replay_ratio)
        learner, found = jax.lax.scan(body, learner, (batches, keys))
        return learner, jnp.mean(found, axis=0)

    def describe(
        self, learner: Learner, stored: ReplayState, key: jax.Array, steps: jax.Array
    ) -> Metrics:
        """Return metrics of the networks, all [].

        Args:
          learner: the learner.
          stored: the transitions.
          key: the key of the seed.
          steps: int32 [], the number of steps done.

        Returns:
          "alpha"; the metrics of `reported` for "policy", "critic_1" and "critic_2"; with
          diagnostics those of `plasticity`.
        """
        params, states = apart(learner.params), apart(learner.optimizers)
        found = {
            "alpha": jnp.exp(learner.log_alpha),
            **reported(params, states, norms=self.config.diagnostics),
        }
        if self.config.diagnostics:
            found |= plasticity(self._single, params, self._probe(stored, key, steps))
        return found

    def ranks(
        self, learner: Learner, stored: ReplayState, key: jax.Array, steps: jax.Array
    ) -> Metrics:
        """Return the ranks of the features, apart from `describe` since they are expensive.

        The arguments are those of `describe`.
        """
        return ranks(self._single, apart(learner.params), self._probe(stored, key, steps))

    @property
    def _single(self) -> dict[str, Network]:
        critic = self.networks["critic"]
        return {"policy": self.networks["policy"], "critic_1": critic, "critic_2": critic}

    def _probe(self, stored: ReplayState, key: jax.Array, steps: jax.Array) -> dict[str, jax.Array]:
        """Draw the inputs on which the networks are measured.

        Args:
          stored: the transitions.
          key: the key of the seed.
          steps: int32 [], the number of steps done.
        """
        drawn = self.replay.sample(stored, _key(key, PROBE, steps), (self.config.probe,))
        read = self.actions.read(drawn.observation, drawn.action)
        return {"policy": drawn.observation, "critic_1": read, "critic_2": read}

    def _begin(self, params: dict[str, Any], hyper: Hyper) -> Learner:
        """Return a new learner with these networks."""
        made = self._transformations(hyper)
        log_alpha = jnp.log(jnp.asarray(self._numbers(hyper)["initial_alpha"], jnp.float32))
        states = {
            "policy": made["policy"].init(params["policy"]),
            "critic": jax.vmap(made["critic"].init)(params["critic"]),
            "alpha": made["alpha"].init(log_alpha),
        }
        return Learner(params, jax.tree.map(jnp.copy, params["critic"]), log_alpha, states)

    @property
    def _log_alpha_bounds(self) -> tuple[float, float]:
        """The least and the largest log α."""
        if self.config.log_alpha_bounds is None:
            return self.actions.log_alpha_bounds
        low, high = self.config.log_alpha_bounds
        return low, high

    def _numbers(self, hyper: Hyper) -> dict[str, Any]:
        own = {name: getattr(self.config, name) for name in self.config.numbers()}
        if own["target_entropy"] is None:
            own["target_entropy"] = self.actions.target_entropy
        return {name: hyper.get(name, number) for name, number in own.items()}

    def _transformations(self, hyper: Hyper) -> dict[str, optax.GradientTransformationExtraArgs]:
        alpha = optax.adam(self._numbers(hyper)["alpha_learning_rate"])
        return {**self.make_optimizers(hyper), "alpha": optax.with_extra_args_support(alpha)}


def _key(key: jax.Array, use: int, steps: jax.Array) -> jax.Array:
    return jax.random.fold_in(jax.random.fold_in(key, use), steps)
