"""Finds runs that are no longer finite by the rows they write, at no cost on the device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from continual_learning.schema.errors import RunError

_PARAMETERS = ("parameter_norm", "alpha")  # ends of the names of columns that are always measured
_LOSSES = ("loss", "gradient_norm")  # ends of the names of columns about updates
_WAITING = "alpha"
"""The column of agents that wait for data, whose losses are NaN in rows without updates."""


class NonfiniteError(RunError):
    """A run was ended because it is no longer finite; all its rows and its state are kept."""


class Nonfinite(NamedTuple):
    """The first row in which a method is not finite.

    Attributes:
      column: the column with the value.
      value: the value that is not finite.
      step, seed: the step and the seed of the row, the first of several rows of that step.
      lanes: the number of lanes that are not finite at some step.
    """

    column: str
    value: float
    step: int
    seed: int
    lanes: int

    def told(self, method: str) -> str:
        """Return a warning about the row, as a sentence."""
        others = "" if self.lanes == 1 else f", the first of {self.lanes} runs"
        return (
            f"{method} is not finite: {self.column} is {self.value} at step {self.step:,} of seed "
            f"{self.seed}{others}."
        )


def first(columns: Mapping[str, np.ndarray], lanes: np.ndarray | None = None) -> Nonfinite | None:
    """Return the first loss, norm or temperature in rows of a method that is not finite.

    Args:
      columns: {name: [rows]}.
      lanes: [rows], the numbers of the runs; None if their seeds tell them apart.
    """
    bad = {name: _bad(name, values, columns) for name, values in columns.items() if _watched(name)}
    if not bad:
        return None
    any_bad = np.any(list(bad.values()), axis=0)
    if not any_bad.any():
        return None
    steps, seeds = np.asarray(columns["step"]), np.asarray(columns["seed"])
    row = int(np.flatnonzero(any_bad)[np.argmin(steps[any_bad])])
    name = next(name for name, rows in bad.items() if rows[row])
    count = len(np.unique((seeds if lanes is None else lanes)[any_bad]))
    return Nonfinite(
        name, float(np.asarray(columns[name])[row]), int(steps[row]), int(seeds[row]), count
    )


def _watched(name: str) -> bool:
    return any(name == end or name.endswith(f"_{end}") for end in (*_PARAMETERS, *_LOSSES))


def _bad(name: str, values: np.ndarray, columns: Mapping[str, np.ndarray]) -> np.ndarray:
    values = np.asarray(values, np.float64)
    waits = _WAITING in columns and not name.endswith(_PARAMETERS)
    return np.isinf(values) if waits else ~np.isfinite(values)


class Guard:
    """A guard that looks at the rows of a method as they come.

    Attributes:
      found: the first row that is not finite, or None.
    """

    def __init__(self, lanes: int):
        self._lanes, self.found = lanes, None

    def __call__(self, columns: Mapping[str, np.ndarray]) -> Nonfinite | None:
        """Return the first bad row of [lanes · rows] the first time there is one, else None."""
        if self.found is not None:
            return None
        rows = len(columns["step"]) // self._lanes
        self.found = first(columns, np.repeat(np.arange(self._lanes), rows))
        return self.found
