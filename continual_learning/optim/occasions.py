"""Methods that act when the task changes, or every so many steps."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.optim.method import (
    Number,
    ResetMethod,
    Step,
    check_range,
    periodic,
    reset_method,
)
from continual_learning.optim.units import UnitGraph


class Occasion(NamedTuple):
    """The state of a method that acts now and then.

    Attributes:
      task: int32 [], the task of the last call, 0 before the first one: an optimizer that is new in
        a later task acts at once.
      changed: bool [], whether the task of the last call was another than that of the call before.
    """

    task: jax.Array
    changed: jax.Array


@reset_method
class Occasional(ResetMethod):
    """The base of methods that act when the task changes, or every `every` steps.

    Attributes:
      every: steps between two acts; None acts in the first step of every task but the first, and
        `update` then needs `task=`, the number of the task.
    """

    every: Number | None = None

    def __post_init__(self):
        super().__post_init__()
        if self.every is not None:
            check_range(self, every=(1, np.inf))

    @property
    def requires(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The number of the task, if the method acts when it changes."""
        return ("task",) if self.every is None else ()

    def start(self, graph: UnitGraph, dtype: Any) -> Occasion:
        """Return the state before the first task."""
        return Occasion(jnp.zeros((), jnp.int32), jnp.zeros((), bool))

    def observe(self, graph: UnitGraph, state: Occasion, step: Step) -> tuple[Occasion, None]:
        """Return the task of the step, and whether it has changed."""
        task = jnp.asarray(step.task)
        return Occasion(task, task != state.task), None

    def due(self, state: Occasion, t: jax.Array) -> jax.Array:
        """Return whether the task has changed, or `t` is a positive multiple of `every`."""
        return state.changed if self.every is None else periodic(t, self.every)
