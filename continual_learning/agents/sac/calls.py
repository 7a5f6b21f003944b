"""The calls from the host to the device: the compiled functions of a `SACLearner` for all lanes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.agents.common.lanes import over_lanes
from continual_learning.agents.common.trainer import COMPILER_OPTIONS, Hyper, strongly_typed
from continual_learning.agents.sac.learner import SACLearner
from continual_learning.agents.sac.replay import Experience, ReplayState
from continual_learning.agents.sac.update import METRICS, Learner
from continual_learning.envs.host.protocol import HostTimestep


class Step(NamedTuple):
    """A step of all environments to learn from.

    Attributes:
      number: the number of the step.
      observation: [lanes, environments, observation_size], the observations acted on.
      action: [lanes, environments, …].
      outcome: the result of `outcome`.
    """

    number: Any
    observation: jax.Array
    action: jax.Array
    outcome: Any


def outcome(reached: HostTimestep) -> np.ndarray:
    """Join observation, reward and `terminated` into one array, for one copy to the device."""
    ends = reached.terminated.astype(np.float32)
    parts = (reached.observation, reached.reward[..., None], ends[..., None])
    return np.concatenate(parts, axis=-1)


class SACCalls:
    """Functions for all lanes at once; arguments and results are [lanes, …], step numbers [].

    Attributes:
      begin: (keys, hyper) -> learner, replay.
      change: (learner, hyper) -> learner at the beginning of a new task.
      act: (parameters of the policy, keys, number of the step, observation) -> actions.
      likeliest: (parameters of the policy, observation) -> actions.
      store: (replay, step) -> replay.
      learn: (learner, replay, said, keys, hyper, step) -> learner, replay, said. It stores the
        step, makes its updates and adds their `METRICS` to `said` [lanes, metrics].
      describe, ranks: (learner, replay, keys, steps done) -> columns.

    Args:
      learning: the learner of one seed.
      lanes: the number of lanes.
    """

    def __init__(self, learning: SACLearner, lanes: int):
        def begin(key: jax.Array, hyper: Hyper) -> tuple[Learner, ReplayState]:
            learner = learning.init(key, hyper)
            return strongly_typed((learner, learning.replay.start(learning.actions.like)))

        def change(learner: Learner, hyper: Hyper) -> Learner:
            return strongly_typed(learning.change(learner, jnp.array(True), hyper))

        def store(stored: ReplayState, step: Step) -> ReplayState:
            return learning.replay.add(stored, _experience(step))

        def learn(
            learner: Learner,
            stored: ReplayState,
            said: jax.Array,
            key: jax.Array,
            hyper: Hyper,
            step: Step,
        ) -> tuple[Learner, ReplayState, jax.Array]:
            stored = store(stored, step)
            drawn = learning.draw(stored, key, step.number)
            task = jnp.asarray(step.number // learning.config.vector_steps_per_task)
            learner, found = learning.learn(learner, drawn, task, hyper)
            return strongly_typed(learner), stored, said + found

        def call(function: Any, *axes: Any, **options: Any) -> Any:
            return jax.jit(over_lanes(function, lanes, axes), **options)

        each = Step._make((None, 0, 0, 0))
        self.begin: Any = call(begin, 0, 0)
        self.change: Any = call(change, 0, 0, donate_argnums=0)
        self.act: Any = call(learning.act, 0, 0, None, 0)
        self.likeliest: Any = call(learning.likeliest, 0, 0)
        self.store: Any = call(store, 0, each, donate_argnums=0)
        self.learn: Any = call(
            learn,
            *(0, 0, 0, 0, 0, each),
            donate_argnums=(0, 1, 2),
            compiler_options=COMPILER_OPTIONS,
        )
        self.describe: Any = call(learning.describe, 0, 0, 0, None)
        self.ranks: Any = call(learning.ranks, 0, 0, 0, None)

    def arguments(
        self, keys: jax.Array, hyper: Hyper, size: int, environments: int, episodes: int
    ) -> dict[str, tuple[Any, ...]]:
        """Return the arguments of every call, or their shapes: {name: arguments}.

        Args:
          keys: the keys of the lanes.
          hyper: the traced numbers of the lanes.
          size: the number of entries of an observation.
          environments: the number of environments of a lane.
          episodes: the number of episodes of a lane that run side by side in an evaluation.
        """
        lanes, number = len(keys), np.int32(0)

        def floats(*shape: int) -> Any:
            return jax.ShapeDtypeStruct((lanes, *shape), jnp.float32)

        learner, replay = jax.eval_shape(self.begin, keys, hyper)
        act = (learner.params["policy"], keys, number, floats(environments, size))
        action = jax.eval_shape(self.act, *act)
        step = Step(number, act[-1], action, floats(environments, size + 2))  # by `outcome`
        return {
            "begin": (keys, hyper),
            "change": (learner, hyper),
            "act": act,
            "likeliest": (learner.params["policy"], floats(episodes, size)),
            "store": (replay, step),
            "learn": (learner, replay, floats(len(METRICS)), keys, hyper, step),
            "describe": (learner, replay, keys, number),
            "ranks": (learner, replay, keys, number),
        }

    def compile(
        self, calls: Mapping[str, tuple[Any, ...]], options: Mapping[str, dict[str, Any]]
    ) -> None:
        """Compile functions before their first call.

        Args:
          calls: {name: the arguments, or their shapes}.
          options: {name: further options of the compiler}, for some of the names.
        """
        for name, arguments in calls.items():
            call = getattr(self, name)
            if not isinstance(call, jax.stages.Compiled):
                setattr(self, name, call.lower(*arguments).compile(options.get(name)))


def _experience(step: Step) -> Experience:
    """Return the transitions of one seed."""
    reward, terminated = step.outcome[:, -2], step.outcome[:, -1] > 0
    return Experience(step.observation, step.action, reward, terminated, step.outcome[:, :-2])
