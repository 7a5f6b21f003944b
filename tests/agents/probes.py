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


class CountingBits(Counting):
    """`Counting` with two actions, which do nothing, and the count as three bits."""

    observation_size = 3
    actions = 2
    binary = True

    def observe(self, state, task):
        return bits(state)

    def step(self, key, state, action, task):
        now, reached = super().step(key, state, action, task)
        return now, reached._replace(observation=bits(now))


def bits(count):
    """A count [1] as three zeros and ones, the smallest first."""
    return jnp.floor(count / jnp.array([1.0, 2.0, 4.0])) % 2


class Bandit(Probe):
    """Three arms, the last pays best, and it is over: Q = 0.1, 0.5, 1."""

    actions = 3

    def step(self, key, state, action, task):
        return state, transition(state, jnp.array([0.1, 0.5, 1.0])[action], TRUE)


class Grid(Probe):
    """Steps right, left, down and up on 3 × 3 cells, from any; the last one pays 1 and is the end.

    Seen is which cell it is. The state is (row, column).
    """

    side = 3
    observation_size = side**2
    actions = 4
    binary = True

    def reset(self, key, task):
        cell = jax.random.randint(key, (), 0, self.side**2 - 1)
        return jnp.array([cell // self.side, cell % self.side], jnp.int32)

    def observe(self, state, task):
        return jax.nn.one_hot(state[0] * self.side + state[1], self.side**2)

    def step(self, key, state, action, task):
        ways = jnp.array([[0, 1], [0, -1], [1, 0], [-1, 0]], jnp.int32)
        now = jnp.clip(state + ways[action], 0, self.side - 1)
        end = jnp.all(now == self.side - 1)
        return now, transition(0, end, end)._replace(observation=self.observe(now, task))
