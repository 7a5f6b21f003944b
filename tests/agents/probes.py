"""Environments whose values and best actions are known, and one that counts."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from continual_learning.envs.base import Transition

TRUE, FALSE = jnp.array(True), jnp.array(False)


def transition(observation, reward, terminated, **metrics):
    return Transition(
        jnp.reshape(jnp.asarray(observation, jnp.float32), (1,)),
        jnp.asarray(reward, jnp.float32),
        jnp.asarray(terminated, bool),
        {name: jnp.asarray(value, jnp.float32) for name, value in metrics.items()},
    )


class Probe:
    """One number is seen, one is done; the state is what is seen, [1]."""

    observation_size = 1
    action_size = 1
    parameters: dict[str, float] = {}  # noqa: RUF012

    def reset(self, key, task):
        return jnp.zeros(1)

    def observe(self, state, task):
        return state


class ConstantReward(Probe):
    """Reward 1, and it is over: V = 1."""

    def step(self, key, state, action, task):
        return state, transition(state, 1, TRUE)


class SeenReward(Probe):
    """The reward is what is seen, −1 or 1, and it is over: V(x) = x."""

    def reset(self, key, task):
        return jax.random.rademacher(key, (1,), jnp.float32)

    def step(self, key, state, action, task):
        return state, transition(state, state[0], TRUE)


class LateReward(Probe):
    """Two steps, a reward of 1 in the second: V(0) = γ, V(1) = 1."""

    def step(self, key, state, action, task):
        return state + 1, transition(state + 1, state[0], state[0] == 1)


class WantedAction(Probe):
    """The best action is 0.5."""

    def step(self, key, state, action, task):
        return state, transition(state, -jnp.square(action[0] - 0.5), TRUE)


class SeenAction(SeenReward):
    """The best action is what is seen, −1 or 1."""

    def step(self, key, state, action, task):
        return state, transition(state, -jnp.square(action[0] - state[0]), TRUE)


class Forever(Probe):
    """Reward 1 and no end: V = 1 / (1 − γ)."""

    def step(self, key, state, action, task):
        return state, transition(state, 1, FALSE)


class Among(Probe):
    """One of several probes, by a number that may be traced: one program for all of them."""

    def __init__(self, probes, number):
        self.probes, self.number = probes, number

    def reset(self, key, task):
        return self._choose([probe.reset(key, task) for probe in self.probes])

    def step(self, key, state, action, task):
        return self._choose([probe.step(key, state, action, task) for probe in self.probes])

    def _choose(self, trees):
        return jax.tree.map(lambda *leaves: jnp.stack(leaves)[self.number], *trees)


class Counting(Probe):
    """Episodes of `length` steps, in which step k pays k + bonus.

    The metric "big" counts the steps that pay more than 6.
    """

    parameters = {"bonus": 0.0, "length": 7.0}  # noqa: RUF012

    def reset(self, key, task):
        return jnp.full((1,), 0.0)  # weakly typed, unlike what a step makes of it

    def step(self, key, state, action, task):
        now = state + jnp.ones(1)
        reward = now[0] + task["bonus"]
        return now, transition(now, reward, now[0] >= task["length"], big=reward > 6)
