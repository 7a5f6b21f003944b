"""The interface of an environment on the host, which Python steps and JAX does not compile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np


class HostTransition(NamedTuple):
    """The outcome of a step of one environment.

    Attributes:
      observation: float [observation_size], the observation of the state reached, before any
        restart.
      reward: the reward of the step.
      terminated: whether the state reached has no future.
      truncated: whether the episode ends here for another reason, such as a time limit.
      metrics: further numbers to report, one for every name in the stream's `metrics`.
    """

    observation: np.ndarray
    reward: float
    terminated: bool
    truncated: bool
    metrics: Mapping[str, float]


class HostEnvironment(Protocol):
    """One environment of one task. The caller restarts it when an episode ends."""

    def reset(self, seed: int) -> np.ndarray:
        """Begin an episode that depends only on `seed`; return its first observation."""
        ...

    def step(self, action: np.ndarray) -> HostTransition:
        """Step the environment once.

        Args:
          action: float32 [action_size] in (−1, 1); int32 [] where there are discrete `actions`.
        """
        ...

    def close(self) -> None:
        """Free the resources of the environment."""
        ...


class ResumableEnvironment(HostEnvironment, Protocol):
    """An environment that can be saved in the middle of an episode."""

    def get_state(self) -> np.ndarray:
        """Return everything that later steps of the episode read, float64 [≤ state_size]."""
        ...

    def set_state(self, state: np.ndarray) -> None:
        """Continue from a state of `get_state`, padded with zeros to float64 [state_size]."""
        ...


class HostStream(Protocol):
    """Tasks for environments on the host, one after the other.

    Every worker gets a pickled copy of the stream, which must not import JAX there.

    Attributes:
      names: the names of the tasks, in their order.
      observation_size: the number of entries of an observation.
      action_size: the number of entries of an action; 1 if actions are discrete.
      actions: the number of discrete actions; None if actions are continuous.
      metrics: the names of the further numbers that a step reports.
      state_size: the largest number of entries of a state in any task. It is 0 if environments
        cannot be saved; otherwise they are `ResumableEnvironment`s.
    """

    @property
    def names(self) -> Sequence[str]:
        """The names of the tasks, in their order."""
        ...

    @property
    def observation_size(self) -> int:
        """The number of entries of an observation."""
        ...

    @property
    def action_size(self) -> int:
        """The number of entries of an action."""
        ...

    @property
    def actions(self) -> int | None:
        """The number of discrete actions; None if actions are continuous."""
        ...

    @property
    def metrics(self) -> Sequence[str]:
        """The names of the further numbers that a step reports."""
        ...

    @property
    def state_size(self) -> int:
        """The largest number of entries of a state."""
        ...

    def make(self, task: int, seed: int, number: int) -> HostEnvironment:
        """Return an environment.

        Args:
          task: the index of the task in `names`.
          seed: the seed of the training run, for properties that all its environments share, such
            as a set of goals.
          number: the number of the environment among those of the seed, from 0.
        """
        ...


class HostTimestep(NamedTuple):
    """The outcome of a step of all environments; all arrays are [seeds, environments, …].

    The names are the same as in `Timestep`; the arrays are NumPy's.

    Attributes:
      observation: float32 [seeds, environments, observation_size], the observations of the states
        reached, before any restart.
      reward: float32.
      terminated: bool, whether the state reached has no future.
      truncated: bool, whether the episode ended for another reason (never together with
        `terminated`).
      episode_return, episode_length: the return and the length of the episode up to this step.
      metrics: {name: float32}, the metrics of the environment.
      invalid: bool, whether the episode was truncated because the step gave numbers that are not
        finite, in a pool that ends such episodes.
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
        """Whether the episode ended, bool [seeds, environments]."""
        return self.terminated | self.truncated
