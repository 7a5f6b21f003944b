"""Environments on the host whose every number is known. Workers import this: no JAX here."""

import os
import signal
import sys
import time

import numpy as np

from continual_learning.envs.host import HostTransition

RAISE, DIE, SLEEP, SPOIL = 66.0, 77.0, 88.0, 99.0
LENGTHS = {"short": 3, "long": 5}


class Counting:
    """Counts its steps; pays the first entry of an action, terminates if the second is above ½."""

    def __init__(self, name, task, run):
        self.name, self.task, self.run = name, task, run
        self.start = self.count = 0

    def observe(self):
        return np.array([self.task, self.run, self.start, self.count])

    def reset(self, seed):
        self.start, self.count = seed % 9973, 0
        return self.observe()

    def step(self, action):
        if action[0] == RAISE:
            raise ArithmeticError("the count is off")
        if action[0] == DIE:
            os.kill(os.getpid(), signal.SIGKILL)
        if action[0] == SLEEP:
            time.sleep(600)
        self.count += 1
        return HostTransition(
            self.observe(),
            action[0],
            bool(action[1] > 0.5),
            self.count >= LENGTHS[self.name],
            {"twice": 2.0 * self.count, "jax": "jax" in sys.modules, "cores": threads()},
        )

    def get_state(self):
        return np.array([self.start, self.count, 1 / 3])

    def set_state(self, state):
        assert state[2] == 1 / 3 and state[3] == 0
        self.start, self.count = int(state[0]), int(state[1])

    def close(self):
        self.name = None


def threads():
    return float(os.environ["OMP_NUM_THREADS"])


class CountingStream:
    """Tasks whose episodes have 3 and 5 steps."""

    names = tuple(LENGTHS)
    observation_size = 4
    action_size = 2
    actions = None
    metrics = ("twice", "jax", "cores")

    def __init__(self, state_size=4):
        self.state_size = state_size

    def make(self, task, seed, number):
        return Counting(self.names[task], task, seed)


class Spoiling(Counting):
    """Gives something else for an observation or a reward where it is told to."""

    def __init__(self, name, task, run, what):
        super().__init__(name, task, run)
        self.what = what

    def reset(self, seed):
        observation = super().reset(seed)
        return self.what.get("reset", observation)

    def step(self, action):
        step = super().step(action)
        return step._replace(**self.what) if action[0] == SPOIL else step


class SpoilingStream(CountingStream):
    """Environments that spoil their steps with these fields of a transition."""

    def __init__(self, **what):
        super().__init__()
        self.what = what

    def make(self, task, seed, number):
        return Spoiling(self.names[task], task, seed, self.what)


class Stillborn(CountingStream):
    """No environment of its lives."""

    def make(self, task, seed, number):
        os.kill(os.getpid(), signal.SIGKILL)


class Broken(CountingStream):
    """No environment of its can be made."""

    def make(self, task, seed, number):
        raise LookupError(f"no room for task {task}")


def gone(pids, seconds=5.0):
    """Whether these processes end before the time is up."""
    until = time.monotonic() + seconds
    while any(map(alive, pids)):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
