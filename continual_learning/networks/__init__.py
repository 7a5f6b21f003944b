"""Networks of the benchmarks, in Flax Linen, and the distributions that they parametrize."""

from typing import TYPE_CHECKING

from continual_learning.lazy import attach

if TYPE_CHECKING:
    from continual_learning.networks.public import *  # noqa: F403

__getattr__, __dir__ = attach(__name__)
