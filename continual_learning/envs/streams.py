"""Streams of tasks of environments in JAX: what changes from task to task."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from continual_learning.envs.base import Environment, Task
from continual_learning.envs.draws import Draw, Interval, Values


@dataclasses.dataclass(frozen=True)
class TaskStream:
    """An endless stream of tasks for an environment: some of its parameters change.

    A task depends on (key, number of the task) alone, so that a run can be resumed anywhere, and
    all methods of a seed meet the same tasks.

    Attributes:
      environment: whose parameters these are.
      changes: {parameter: how its value is drawn for a task}. A function of one's own
        (key, number of the task) -> value will do. Other parameters keep their usual value.
      names: what the tasks are called, in their order, over and over; task_0, task_1, … if empty.
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
        """Task `index` [] of the stream of `key`: {parameter: float32 []}."""
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
        """{name: number of the task}, the first of each kind among the first `count` tasks.

        Tasks are of one kind if all that changes are `Values`, and these are the same.
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
            raise ValueError(f"Tasks that differ must have names that do, got {self.names}.")
        return found

    def name(self, number: int) -> str:
        """What a task is called."""
        return self.names[number % len(self.names)] if self.names else f"task_{number}"
