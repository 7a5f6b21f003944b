"""MuJoCo models as straight-line JAX programs."""

from continual_learning.physics.batching import of_one
from continual_learning.physics.engine import (
    CPU_OPTIONS,
    Dynamics,
    Engine,
    Links,
    Parameters,
    State,
    unroll,
)
from continual_learning.physics.model import UnsupportedModel

__all__ = [
    "CPU_OPTIONS",
    "Dynamics",
    "Engine",
    "Links",
    "Parameters",
    "State",
    "UnsupportedModel",
    "of_one",
    "unroll",
]
