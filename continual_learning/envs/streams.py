"""Streams of tasks for environments in JAX, whose parameters change from task to task."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from continual_learning.envs.base import Environment, Task
from continual_learning.envs.draws import Draw, Interval, Values


@dataclasses.dataclass(frozen=True)
class TaskStream:
    """An endless stream of tasks, which change some parameters of an environment.

    A task depends only on the key and the number of the task, so that a run can be resumed
    anywhere, and all methods of a seed meet the same tasks.

    Attributes:
      environment: the environment whose parameters change.
      changes: {parameter: function that draws its value for a task}. You can pass your own
        function (key, number of the task) -> value. Other parameters keep their usual value.
      names: the names of the tasks in their order, which repeat; if it is empty, the tasks are
        called task_0, task_1, ….
    """

    environment: Environment
    changes: Mapping[str, Draw]
    names: tuple[str, ...] = ()

    def __post_init__(self):
        known = self.environment.parameters
        for name in self.changes:
            if name not in known:
                raise ValueError(
                    f"{type(self.environment).__name__} has no task parameter {name!r}. "
                    f"Valid: {', '.join(known)}."
                )

    def task(self, key: jax.Array, index: jax.Array) -> Task:
        """Return task number `index` [] of the stream with this key: {parameter: float32 []}."""
        key = jax.random.fold_in(key, index)
        usual = dict(sorted(self.environment.parameters.items()))
        numbers = {name: number for number, name in enumerate(usual)}
        task = {}
        for name, value in usual.items():
            draw = self.changes.get(name)
            if draw is not None:
                source = draw.of if isinstance(draw, Interval) else name
                value = draw(jax.random.fold_in(key, numbers[source]), index)
            task[name] = jnp.asarray(value, jnp.float32)
        return task

    def distinct(self, count: int) -> dict[str, int]:
        """Return {name: number} of the first task of each kind among the first `count` tasks.

        Two tasks are of the same kind if all changes are `Values` and have the same values in both.
        """

        def kind(number: int) -> object:
            values = []
            for draw in self.changes.values():
                if not isinstance(draw, Values):
                    return number
                values.append(draw.values[number % len(draw.values)])
            return tuple(values)

        first: dict[object, int] = {}
        for number in range(count):
            first.setdefault(kind(number), number)
        found = {self.name(number): number for number in first.values()}
        if len(found) < len(first):
            raise ValueError(f"Tasks that differ must have different names, got {self.names}.")
        return found

    def name(self, number: int) -> str:
        """Return the name of a task."""
        return self.names[number % len(self.names)] if self.names else f"task_{number}"
