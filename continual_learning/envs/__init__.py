"""Task streams: what is learned, and how it changes."""

from continual_learning.envs.base import DiscreteEnvironment, Environment, Transition
from continual_learning.envs.datasets import Dataset, load_dataset
from continual_learning.envs.delayed import Delayed
from continual_learning.envs.episodes import Episodes, EpisodesState, Live, Timestep
from continual_learning.envs.errors import DatasetError
from continual_learning.envs.minatar import MinAtar
from continual_learning.envs.streams import (
    Integers,
    LogUniform,
    TaskStream,
    Uniform,
    Values,
    parse_changes,
    parse_draw,
)
from continual_learning.envs.supervised import SupervisedStream, Task

__all__ = [
    "Dataset",
    "DatasetError",
    "Delayed",
    "DiscreteEnvironment",
    "Environment",
    "Episodes",
    "EpisodesState",
    "Integers",
    "Live",
    "LogUniform",
    "MinAtar",
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
