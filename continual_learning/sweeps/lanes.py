"""The configurations of the lanes of a sweep's study."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from continual_learning.studies.study import Study
from continual_learning.sweeps.grid import Configuration, Grid, value_of

Point = tuple[Any, ...]
"""The values of a configuration, as a key of dictionaries."""


def configurations(study: Study, names: Sequence[str]) -> list[Configuration]:
    """Return the settings of every lane: its own numbers and the values that all lanes share."""
    [method] = study.methods
    shared = {name: value_of(study.experiment, method, name) for name in names}
    own = {name: values for name, values in study.hyper.items() if name in shared}
    return [{**shared, **{n: own[n][i] for n in own}} for i in range(study.lanes)]


def point(configuration: Configuration) -> Point:
    """Return a configuration as a key of dictionaries."""
    return tuple(configuration.values())


def candidates(studies: Sequence[Study], grid: Grid) -> list[Configuration]:
    """Return the configurations that studies run, in the order of the grid."""
    names = list(grid.values)
    run = {point(each): each for study in studies for each in configurations(study, names)}
    places = {name: {value: i for i, value in enumerate(grid.values[name])} for name in names}
    return sorted(run.values(), key=lambda each: [places[n][each[n]] for n in names])
