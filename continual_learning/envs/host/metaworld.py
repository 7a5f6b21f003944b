"""MetaWorld's robot arm (Yu et al. 2019, arXiv 1910.10897), which needs the extra `metaworld`."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
from typing import Any

import numpy as np

from continual_learning import installation
from continual_learning.envs.catalog.metaworld import LONGEST, MT10
from continual_learning.envs.host.protocol import HostTransition
from continual_learning.schema.names import Goal, Goals

OBSERVATION = 39  # hand, gripper and objects now and a step before, then the goal
FRAME = 18  # the entries of hand, gripper and objects at one time
GOAL = slice(36, 39)
STATE = 384  # the largest of MetaWorld's 50 tasks needs 331


@dataclasses.dataclass(frozen=True)
class MetaWorld:
    """Tasks of MetaWorld (version 3), one after the other.

    `MetaWorld()` is Continual MetaWorld; `MetaWorld.mt1("reach")` is MT1, a single task.

    A task has 50 goals for every seed, those of `metaworld.MT1(task, seed)`. Every episode draws
    one of them, or every environment keeps the one of its number. Episodes end only by truncation.
    A step reports "success", whether the task is solved in this step, and "success_ever", whether
    it was solved in any step of the episode so far. In the last step of an episode, they tell
    whether the task was solved at its end, and whether it was ever solved.

    Attributes:
      tasks: the names of the tasks, without "-v3".
      goal: "shown" if observations have the goal, "hidden" if they have zeros in its place.
      one_hot: whether observations end with the number of the task, as one entry per task.
      length: the number of steps of an episode.
      goals: "fresh" if every episode draws a goal, "fixed" if environment i of a seed always has
        goal i, in training and in evaluations, which number their environments in the same way.
    """

    tasks: tuple[str, ...] = MT10
    goal: Goal = "shown"
    one_hot: bool = True
    length: int = LONGEST
    goals: Goals = "fresh"

    def __post_init__(self):
        if not self.tasks or not all(isinstance(task, str) for task in self.tasks):
            raise ValueError(f"MetaWorld: tasks must be one or more names, got {self.tasks!r}.")
        if self.goal not in ("shown", "hidden"):
            raise ValueError(f"MetaWorld: goal must be 'shown' or 'hidden', got {self.goal!r}.")
        if self.goals not in ("fresh", "fixed"):
            raise ValueError(f"MetaWorld: goals must be 'fresh' or 'fixed', got {self.goals!r}.")
        if not 1 <= self.length <= LONGEST:
            raise ValueError(f"MetaWorld: length must be 1 to {LONGEST}, got {self.length}.")
        if importlib.util.find_spec("metaworld") is None:
            raise ModuleNotFoundError(
                f"MetaWorld needs metaworld: {installation.command('metaworld')}.",
                name="metaworld",
            )

    @classmethod
    def mt1(
        cls,
        task: str,
        goal: Goal = "shown",
        goals: Goals = "fresh",
    ) -> MetaWorld:
        """Return one task, without its number in observations.

        Args:
          task: a task of MetaWorld, such as those of `MT10`.
          goal: "shown" in observations, as in MetaWorld's MT1, or "hidden", as in its ML1.
          goals: "fresh" in every episode, or always the same in an environment ("fixed").
        """
        return cls((task,), goal, one_hot=False, goals=goals)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tasks."""
        return self.tasks

    @property
    def observation_size(self) -> int:
        """The number of entries of an observation."""
        return OBSERVATION + self.one_hot * len(self.tasks)

    @property
    def action_size(self) -> int:
        """The number of entries of an action: the direction of the hand (3) and the gripper (1)."""
        return 4

    @property
    def actions(self) -> None:
        """None, since actions are continuous."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the further numbers that a step reports."""
        return ("success", "success_ever")

    @property
    def state_size(self) -> int:
        """The largest number of entries of a state."""
        return STATE

    def make(self, task: int, seed: int, number: int = 0) -> MetaWorldEnvironment:
        """Return an environment.

        Args:
          task: the index of the task.
          seed: the seed of its goals.
          number: the number of the environment among those of the seed, from 0.
        """
        appended = np.zeros(len(self.tasks) if self.one_hot else 0)
        if self.one_hot:
            appended[task] = 1.0
        return MetaWorldEnvironment(
            self.tasks[task],
            seed,
            appended,
            self.goal == "hidden",
            self.length,
            number if self.goals == "fixed" else None,
        )


class MetaWorldEnvironment:
    """One of MetaWorld's environments, whose episodes can be saved.

    Args:
      task: the name of the task, without "-v3".
      seed: the seed of its goals.
      appended: float [any], the entries that follow MetaWorld's own observation.
      hidden: whether observations hide the goal.
      length: the number of steps of an episode.
      fixed: the number of the goal of all episodes; None to draw a goal for every episode.
    """

    def __init__(
        self,
        task: str,
        seed: int,
        appended: np.ndarray,
        hidden: bool,
        length: int,
        fixed: int | None = None,
    ):
        mujoco: Any = importlib.import_module("mujoco")
        benchmark = _benchmark(task, seed)
        (make,) = benchmark.train_classes.values()
        self._goals = benchmark.train_tasks
        self._env: Any = make()
        self._appended = appended
        self._hidden = hidden
        self._length = length
        self._fixed = fixed
        self._goal = 0
        self._ever = False
        self._mujoco = mujoco
        # This state has everything that the next physics step reads, also its warm start.
        self._parts = mujoco.mjtState.mjSTATE_INTEGRATION
        self._physics = np.zeros(mujoco.mj_stateSize(self._env.model, self._parts))

    def reset(self, seed: int) -> np.ndarray:
        """Begin an episode with one of the goals, and return its first observation."""
        if self._fixed is not None:
            return self._begin(self._fixed % len(self._goals))
        return self._begin(int(np.random.default_rng(seed).integers(len(self._goals))))

    def step(self, action: np.ndarray) -> HostTransition:
        """Step the environment once."""
        observation, reward, _, _, info = self._env.step(action)
        success = bool(info["success"])
        self._ever |= success
        return HostTransition(
            self._observe(observation),
            float(reward),
            False,
            self._env.curr_path_length >= self._length,
            {"success": float(success), "success_ever": float(self._ever)},
        )

    def get_state(self) -> np.ndarray:
        """Return goal, steps done, whether ever solved, the last frame, and MuJoCo's own state."""
        env = self._env
        self._mujoco.mj_getState(env.model, env.data, self._physics, self._parts)
        told = [self._goal, env.curr_path_length, self._ever]
        return np.concatenate([told, env._prev_obs, self._physics])

    def set_state(self, state: np.ndarray) -> None:
        """Begin the episode anew, which places the fixed objects, and then restore the state."""
        env = self._env
        told, frame, physics = np.split(state, [3, 3 + FRAME])
        self._begin(int(told[0]) % len(self._goals))
        env.curr_path_length, self._ever = int(told[1]), bool(told[2])
        env._prev_obs = frame
        physics = physics[: self._physics.size]
        self._mujoco.mj_setState(env.model, env.data, physics, self._parts)

    def close(self) -> None:
        """Close the environment of MetaWorld."""
        self._env.close()

    def _begin(self, goal: int) -> np.ndarray:
        self._goal, self._ever = goal, False
        self._env.set_task(self._goals[goal])
        observation, _ = self._env.reset()
        return self._observe(observation)

    def _observe(self, observation: np.ndarray) -> np.ndarray:
        if self._hidden:
            observation[GOAL] = 0.0
        return np.concatenate([observation, self._appended])


def task_names() -> list[str]:
    """Return the names of all tasks of MetaWorld, without "-v3"."""
    import metaworld

    return [name.removesuffix("-v3") for name in metaworld.MT1.ENV_NAMES]


@functools.cache
def _benchmark(task: str, seed: int) -> Any:
    """Return MetaWorld's own benchmark of one task, which draws the goals; it takes a second."""
    import metaworld

    if task not in task_names():
        raise ValueError(f"MetaWorld has no task {task!r}. Valid: {', '.join(task_names())}.")
    return metaworld.MT1(f"{task}-v3", seed=seed)
