"""Actions that act later, and observations that arrive later."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp

from continual_learning.envs.base import Environment, Task, Transition
from continual_learning.schema.names import ToldDelays


class DelayedState(NamedTuple):
    """The state of an environment, and the actions and observations that are still to arrive.

    Attributes:
      env: the state of the environment.
      actions: float32 [kept, action_size], the last actions, newest first: those that may still
        act, and one more where the agent sees the history.
      observations: float32 [observation_delay, observation_size], the last ones, newest first.
      delays: int32 [2], the delays of the observation that is seen and of the action that acted
        last; () where the task alone determines them.
    """

    env: Any
    actions: jax.Array
    observations: jax.Array
    delays: Any = ()


@dataclasses.dataclass(frozen=True)
class Delayed:
    """An environment with delays of k steps, where k may change between tasks and between steps.

    It has two more task parameters. With `action_delay` k, the action of step t acts in step t + k,
    and zeros act before the first action does. With `observation_delay` k, the agent sees at step t
    the observation of step t − k, or the first one. Rewards and ends of episodes are not delayed.

    With `interval` there are two more, `action_delay_high` and `observation_delay_high`, and every
    step draws both of its delays between the lower and the higher number: step t applies the action
    of step t − k, whichever actions have acted before. An episode begins with empty buffers.

    Attributes:
      env: the environment.
      action_delay: the longest delay of actions.
      observation_delay: the longest delay of observations.
      told: what the agent sees behind the delayed observation. "blind": nothing. "none": the
        actions of the last `action_delay` + 1 steps, newest first, zeros before the first.
        "one_hot" and "scalar": these actions, then the delays of this observation and of the action
        that acted last, as one-hot vectors or as shares of the longest delay.
      interval: whether every step draws its delays.
    """

    env: Environment
    action_delay: int = 0
    observation_delay: int = 0
    told: ToldDelays = "blind"
    interval: bool = False

    def __post_init__(self):
        for name in ("action_delay", "observation_delay"):
            if getattr(self, name) < 0:
                raise ValueError(
                    f"Delayed: {name} must not be negative, got {getattr(self, name)}."
                )
        if self.told not in get_args(ToldDelays):
            valid = ", ".join(map(repr, get_args(ToldDelays)))
            raise ValueError(f"Delayed: told must be one of {valid}, got {self.told!r}.")

    @property
    def observation_size(self) -> int:
        """The size without delays, plus the size of the history and delays that the agent sees."""
        size = self.env.observation_size
        if self.told != "blind":
            size += self._kept * self.action_size
        if self.told == "one_hot":
            size += self.observation_delay + 1 + self.action_delay + 1
        return size + 2 * (self.told == "scalar")

    @property
    def action_size(self) -> int:
        """The size without delays."""
        return self.env.action_size

    @property
    def parameters(self) -> Mapping[str, float]:
        """The parameters of the environment, and the delays."""
        delays = {"action_delay": 0, "observation_delay": 0}
        if self.interval:
            delays |= {"action_delay_high": 0, "observation_delay_high": 0}
        return {**self.env.parameters, **delays}

    def reset(self, key: jax.Array, task: Task) -> DelayedState:
        """Return a first state, whose observation is seen until a later one arrives."""
        state = self.env.reset(key, task)
        first = self.env.observe(state, task)
        return DelayedState(
            state,
            jnp.zeros((self._kept, self.action_size)),
            jnp.tile(first[None], (self.observation_delay, 1)),
            self._draw(key, task) if self.interval else (),
        )

    def observe(self, state: DelayedState, task: Task) -> jax.Array:
        """Return the observation that arrives now, with the history and delays that are told."""
        return self._seen(self.env.observe(state.env, task), state, task)

    def step(
        self, key: jax.Array, state: DelayedState, action: jax.Array, task: Task
    ) -> tuple[DelayedState, Transition]:
        """Make a step with the action that arrives now."""
        seen = self.env.observe(state.env, task)
        drawn = self._draw(key, task) if self.interval else ()
        _, delay = self._delays(drawn, task)
        acting = _delayed(action, state.actions[: self.action_delay], delay)
        env, reached = self.env.step(key, state.env, acting, task)
        after = DelayedState(
            env, _pushed(action, state.actions), _pushed(seen, state.observations), drawn
        )
        return after, reached._replace(observation=self._seen(reached.observation, after, task))

    @property
    def _kept(self) -> int:
        """The number of actions that are kept."""
        return self.action_delay + (self.told != "blind")

    def _draw(self, key: jax.Array, task: Task) -> jax.Array:
        """Draw the delays of a step, int32 [2], from a key that differs from the environment's."""
        keys = jax.random.split(jax.random.fold_in(key, 1))

        def drawn(key: jax.Array, name: str) -> jax.Array:
            low, high = (jnp.round(task[n]).astype(jnp.int32) for n in (name, f"{name}_high"))
            return jax.random.randint(key, (), low, jnp.maximum(low, high) + 1)

        return jnp.stack([drawn(keys[0], "observation_delay"), drawn(keys[1], "action_delay")])

    def _delays(self, drawn: Any, task: Task) -> tuple[jax.Array, jax.Array]:
        """Return the delays of the observation and of the action, int32 []."""
        if not self.interval:
            names = ("observation_delay", "action_delay")
            drawn = [jnp.round(task[name]).astype(jnp.int32) for name in names]
        longest = (self.observation_delay, self.action_delay)
        observation, action = (
            jnp.clip(delay, 0, most) for delay, most in zip(drawn, longest, strict=True)
        )
        return observation, action

    def _seen(self, newest: jax.Array, state: DelayedState, task: Task) -> jax.Array:
        observation, action = self._delays(state.delays, task)
        arrives = _delayed(newest, state.observations, observation)
        if self.told == "blind":
            return arrives
        parts = [arrives, state.actions.reshape(-1)]
        for delay, longest in ((observation, self.observation_delay), (action, self.action_delay)):
            if self.told == "one_hot":
                parts.append(jax.nn.one_hot(delay, longest + 1))
            elif self.told == "scalar":
                parts.append((delay / max(longest, 1))[None])
        return jnp.concatenate(parts)


def _delayed(newest: jax.Array, before: jax.Array, delay: jax.Array) -> jax.Array:
    """Return the value of `delay` steps ago."""
    return jnp.concatenate([newest[None], before])[delay]


def _pushed(newest: jax.Array, before: jax.Array) -> jax.Array:
    return jnp.concatenate([newest[None], before])[: len(before)]
