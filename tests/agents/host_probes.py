"""Probes as environments of the host. Workers import this: no JAX here."""

import numpy as np

from continual_learning.envs.host import HostTransition


class Counting:
    """`probes.Counting` in episodes of at most 7 steps; it says the count, and whether it is big.

    Task 0 terminates after 7 steps; in task 1, which pays 100 more, episodes are cut then.
    """

    def __init__(self, task):
        self.task, self.count = task, 0

    def reset(self, seed):
        self.count = 0
        return np.zeros(1)

    def step(self, action):
        self.count += 1
        reward = self.count + 100 * self.task
        ends = self.count >= 7
        return HostTransition(
            np.array([self.count], float),
            reward,
            ends and self.task == 0,
            ends,
            {"success": float(reward > 6), "count": float(self.count)},
        )

    def get_state(self):
        return np.array([self.count])

    def set_state(self, state):
        self.count = int(state[0])

    def close(self):
        pass


class CountingStream:
    names = ("ends", "is-cut")
    observation_size = action_size = state_size = 1
    actions = None
    metrics = ("success", "count")

    def make(self, task, seed, number):
        return Counting(task)


class Target:
    """Pays 1 for the action that is seen, −0.5 or 0.5, and less for others; cut after two steps."""

    def reset(self, seed):
        self.rng, self.steps = np.random.default_rng(seed), 0
        self.seen = self.rng.choice([-0.5, 0.5])
        return np.array([self.seen])

    def step(self, action):
        reward = 1.0 - (float(action[0]) - self.seen) ** 2
        self.steps += 1
        self.seen = self.rng.choice([-0.5, 0.5])
        return HostTransition(np.array([self.seen]), reward, False, self.steps == 2, {})

    def close(self):
        pass


class TargetStream:
    names = ("target",)
    observation_size = action_size = 1
    state_size = 0
    actions = None
    metrics = ()

    def make(self, task, seed, number):
        return Target()
