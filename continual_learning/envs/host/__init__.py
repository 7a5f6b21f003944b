"""Environments on the host (Gymnasium's, MetaWorld, your own), stepped by worker processes."""

from continual_learning.envs.host.gymnasium import GymnasiumStream
from continual_learning.envs.host.metaworld import MT10, MetaWorld
from continual_learning.envs.host.pool import Pool
from continual_learning.envs.host.protocol import (
    HostEnvironment,
    HostStream,
    HostTimestep,
    HostTransition,
    ResumableEnvironment,
)

__all__ = [
    "MT10",
    "GymnasiumStream",
    "HostEnvironment",
    "HostStream",
    "HostTimestep",
    "HostTransition",
    "MetaWorld",
    "Pool",
    "ResumableEnvironment",
]
