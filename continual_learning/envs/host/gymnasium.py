"""Environments of Gymnasium as a stream of tasks; they need the extra `gymnasium`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from continual_learning import installation
from continual_learning.envs.host.protocol import HostTransition

GymnasiumTask = str | Callable[[], Any]
"""The id of a registered environment, or a function that makes one."""


class GymnasiumStream:
    """A stream whose tasks are environments of Gymnasium.

    Observations are flattened by Gymnasium's own rules. Actions in (−1, 1) are scaled to the bounds
    of a `Box`; the actions of a `Discrete` are counted from 0. Time limits are those of the
    environments. Every episode begins with `reset(seed=…)`.

    Episodes cannot be saved, so environments begin new ones after a resume. For an exact resume,
    write a `HostStream` whose environments have `get_state` and `set_state`.

    Args:
      tasks: ids, or functions without arguments that make an environment.
      metrics: the names of numbers in a step's `info` to report; they are NaN in steps whose `info`
        lacks them.
      pad: whether to append zeros to observations that are shorter than the longest.
    """

    def __init__(
        self, tasks: Sequence[GymnasiumTask], metrics: Sequence[str] = (), pad: bool = False
    ):
        if isinstance(tasks, str) or not tasks:
            raise ValueError(
                f"GymnasiumStream: tasks must be a list of at least one task, got {tasks!r}."
            )
        self._tasks = tuple(tasks)
        self.names = tuple(map(_name, tasks))
        self.metrics = tuple(metrics)
        self.state_size = 0
        spaces = {name: _spaces(name, task) for name, task in zip(self.names, tasks, strict=True)}
        _check_same("actions", {name: each.told for name, each in spaces.items()})
        observations = {name: str(each.observation_size) for name, each in spaces.items()}
        if not pad:
            _check_same("observations", observations, " or have zeros appended: pad=True")
        self.observation_size = max(each.observation_size for each in spaces.values())
        self.actions = spaces[self.names[0]].actions
        self.action_size = spaces[self.names[0]].action_size

    def make(self, task: int, seed: int, number: int = 0) -> GymnasiumEnvironment:
        """Return an environment of a task; only its episodes have seeds.

        Args:
          task: the index of the task.
          seed: unused.
          number: unused.
        """
        return GymnasiumEnvironment(_make(self._tasks[task]), self.observation_size, self.metrics)


class GymnasiumEnvironment:
    """One of Gymnasium's environments as a `HostEnvironment`.

    Args:
      env: the environment of Gymnasium.
      observation_size: the number of entries of an observation, with the zeros appended to it.
      metrics: the names of numbers in a step's `info` to report.
    """

    def __init__(self, env: Any, observation_size: int, metrics: Sequence[str]):
        self._env = env
        self._size = observation_size
        self._metrics = metrics
        self._spaces = _gymnasium().spaces

    def reset(self, seed: int) -> np.ndarray:
        """Begin an episode, and return its first observation."""
        observation, _ = self._env.reset(seed=seed)
        return self._observe(observation)

    def step(self, action: np.ndarray) -> HostTransition:
        """Step the environment once."""
        observation, reward, terminated, truncated, info = self._env.step(self._act(action))
        metrics = {name: info.get(name, np.nan) for name in self._metrics}
        return HostTransition(self._observe(observation), reward, terminated, truncated, metrics)

    def close(self) -> None:
        """Close the environment of Gymnasium."""
        self._env.close()

    def _observe(self, observation: Any) -> np.ndarray:
        _check(self._spaces, self._env.observation_space, observation)
        flat = self._spaces.flatten(self._env.observation_space, observation)
        padded = np.zeros(self._size, np.float32)
        padded[: len(flat)] = flat
        return padded

    def _act(self, action: np.ndarray) -> Any:
        space = self._env.action_space
        if isinstance(space, self._spaces.Discrete):
            return int(space.start + action)
        part = (np.clip(action, -1.0, 1.0).reshape(space.shape) + 1.0) / 2.0
        return (space.low + part * (space.high - space.low)).astype(space.dtype)


def _check(spaces: Any, space: Any, observation: Any) -> None:
    """Raise a ValueError unless an observation has the shape that its space promises.

    Gymnasium itself does not check the arrays that it flattens.
    """
    if isinstance(space, spaces.Dict | spaces.Tuple):
        names = space.spaces if isinstance(space, spaces.Dict) else range(len(space.spaces))
        for name in names:
            _check(spaces, space.spaces[name], observation[name])
    elif isinstance(space, spaces.Box):
        given = np.asarray(observation)
        if given.dtype.kind not in "biuf" or given.shape != space.shape:
            raise ValueError(
                f"The observation must be numbers {list(space.shape)} as its space {space} "
                f"promises, got {given.dtype} {list(given.shape)}."
            )


class _Spaces(NamedTuple):
    """The sizes of an environment, by their names in a stream."""

    observation_size: int
    actions: int | None
    action_size: int

    @property
    def told(self) -> str:
        """The actions, in words."""
        return f"{self.action_size} numbers" if self.actions is None else f"{self.actions} choices"


def _spaces(name: str, task: GymnasiumTask) -> _Spaces:
    """Return the sizes of the spaces of a task's environment."""
    spaces = _gymnasium().spaces
    with contextlib.closing(_make(task)) as env:
        seen, space = env.observation_space, env.action_space
    if not seen.is_np_flattenable:
        raise ValueError(f"GymnasiumStream: observations of {name} have no fixed size, {seen}.")
    size = spaces.flatdim(seen)
    if isinstance(space, spaces.Discrete):
        return _Spaces(size, int(space.n), 1)
    if not isinstance(space, spaces.Box) or space.dtype.kind != "f" or not space.is_bounded():
        raise ValueError(
            f"GymnasiumStream: actions of {name} must be a Discrete, or a Box of floats with "
            f"finite bounds, got {space}. Wrap the environment so that they are."
        )
    return _Spaces(size, None, spaces.flatdim(space))


def _check_same(what: str, found: dict[str, str], hint: str = "") -> None:
    if len(set(found.values())) > 1:
        listed = ", ".join(f"{name} has {each}" for name, each in found.items())
        raise ValueError(
            f"GymnasiumStream: all tasks must have the same {what}, but {listed}. Wrap the "
            f"environments so that they agree{hint}."
        )


def _make(task: GymnasiumTask) -> Any:
    return _gymnasium().make(task) if isinstance(task, str) else task()


def _name(task: GymnasiumTask) -> str:
    return task if isinstance(task, str) else getattr(task, "__name__", repr(task))


def _gymnasium() -> ModuleType:
    try:
        import gymnasium
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"GymnasiumStream needs {error.name}: {installation.command('gymnasium')}.",
            name=error.name,
        ) from None
    return gymnasium
