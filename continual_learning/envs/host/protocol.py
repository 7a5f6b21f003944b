"""What an environment on the host is: one that is stepped by Python, not compiled by JAX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np


class HostTransition(NamedTuple):
    """What a step of one environment led to.

    Attributes:
      observation: float [observation_size], of the state reached, before any restart.
      reward: of the step.
      terminated: the state reached has no future.
      truncated: the episode ends here all the same, as by a time limit.
      metrics: what else to report; every name in the stream's `metrics`.
    """

    observation: np.ndarray
    reward: float
    terminated: bool
    truncated: bool
    metrics: Mapping[str, float]


class HostEnvironment(Protocol):
    """One environment of one task. Whoever steps it restarts it when an episode ends."""

    def reset(self, seed: int) -> np.ndarray:
        """Begins an episode that depends on `seed` alone; observation [observation_size]."""
        ...

    def step(self, action: np.ndarray) -> HostTransition:
        """One step.

        Args:
          action: float32 [action_size] from (−1, 1); int32 [] where there are discrete `actions`.
        """
        ...

    def close(self) -> None:
        """Frees what it holds."""
        ...


class ResumableEnvironment(HostEnvironment, Protocol):
    """An environment that can be saved in the middle of an episode."""

    def get_state(self) -> np.ndarray:
        """Everything that later steps of the episode read, float64 [state_size or less]."""
        ...

    def set_state(self, state: np.ndarray) -> None:
        """Goes on where `get_state` was called, float64 [state_size], zeros after what it gave."""
        ...


class HostStream(Protocol):
    """Tasks for environments on the host, one after the other.

    It is pickled once for every worker, where it must not import JAX.

    Attributes:
      names: of the tasks, in their order.
      observation_size: entries of an observation.
      action_size: entries of an action; 1 where actions are discrete.
      actions: how many discrete actions there are; None where they are continuous.
      metrics: names of what a step reports besides.
      state_size: entries that a state needs at most in any task; 0 if environments cannot be
        saved. Otherwise they are `ResumableEnvironment`s.
    """

    @property
    def names(self) -> Sequence[str]:
        """Of the tasks, in their order."""
        ...

    @property
    def observation_size(self) -> int:
        """Entries of an observation."""
        ...

    @property
    def action_size(self) -> int:
        """Entries of an action."""
        ...

    @property
    def actions(self) -> int | None:
        """How many discrete actions there are, if they are discrete."""
        ...

    @property
    def metrics(self) -> Sequence[str]:
        """Names of what a step reports besides."""
        ...

    @property
    def state_size(self) -> int:
        """Entries that a state needs at most."""
        ...

    def make(self, task: int, seed: int, number: int) -> HostEnvironment:
        """Return an environment.

        Args:
          task: its index in `names`.
          seed: of the training run, for what all its environments share, such as a set of goals.
          number: of the environment among those of the seed, from 0.
        """
        ...


class HostTimestep(NamedTuple):
    """What a step of all environments led to; everything [seeds, environments, …].

    The words are those of `Timestep`, in NumPy.

    Attributes:
      observation: float32 [seeds, environments, observation_size], of the state reached, before
        any restart.
      reward: float32.
      terminated: bool, the state reached has no future.
      truncated: bool, the episode was ended all the same (never together with `terminated`).
      episode_return, episode_length: of the episode so far; of the whole one where it ended.
      metrics: {name: float32}, of the environment.
      invalid: bool, the episode was truncated because the step gave numbers that are not finite,
        in a pool that ends such episodes.
    """

    observation: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    episode_return: np.ndarray
    episode_length: np.ndarray
    metrics: dict[str, np.ndarray]
    invalid: np.ndarray

    @property
    def ended(self) -> np.ndarray:
        """Where an episode ended, bool [seeds, environments]."""
        return self.terminated | self.truncated
