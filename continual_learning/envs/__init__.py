"""Streams of tasks: the environments and data sets to learn from, and how they change.

The names below are imported when they are first used, because the workers of `envs.host` import
this package and need no JAX.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from continual_learning.envs.base import DiscreteEnvironment, Environment, Transition
    from continual_learning.envs.catalog.stream import STREAMS, Examples, OnDevice, OnHost, Stream
    from continual_learning.envs.datasets.dataset import Dataset, load_dataset
    from continual_learning.envs.datasets.stream import SupervisedStream, Task
    from continual_learning.envs.draws import (
        Integers,
        Interval,
        LogUniform,
        Uniform,
        Values,
        parse_changes,
        parse_draw,
    )
    from continual_learning.envs.episodes import Episodes, EpisodesState, Live, Timestep
    from continual_learning.envs.errors import DatasetError
    from continual_learning.envs.minatar import MinAtar
    from continual_learning.envs.robots.delayed import Delayed
    from continual_learning.envs.streams import TaskStream

_HOMES = {
    "base": ("DiscreteEnvironment", "Environment", "Transition"),
    "datasets.dataset": ("Dataset", "load_dataset"),
    "robots.delayed": ("Delayed",),
    "episodes": ("Episodes", "EpisodesState", "Live", "Timestep"),
    "errors": ("DatasetError",),
    "minatar": ("MinAtar",),
    "catalog.stream": ("STREAMS", "Examples", "OnDevice", "OnHost", "Stream"),
    "draws": (
        "Integers",
        "Interval",
        "LogUniform",
        "Uniform",
        "Values",
        "parse_changes",
        "parse_draw",
    ),
    "streams": ("TaskStream",),
    "datasets.stream": ("SupervisedStream", "Task"),
}

__all__ = [
    "STREAMS",
    "Dataset",
    "DatasetError",
    "Delayed",
    "DiscreteEnvironment",
    "Environment",
    "Episodes",
    "EpisodesState",
    "Examples",
    "Integers",
    "Interval",
    "Live",
    "LogUniform",
    "MinAtar",
    "OnDevice",
    "OnHost",
    "Stream",
    "SupervisedStream",
    "Task",
    "TaskStream",
    "Timestep",
    "Transition",
    "Uniform",
    "Values",
    "load_dataset",
    "parse_changes",
    "parse_draw",
]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            found = getattr(importlib.import_module(f"{__name__}.{home}"), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
