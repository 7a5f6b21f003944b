"""Networks of the benchmarks, in Flax Linen, and the distributions that they parametrise."""

from continual_learning.networks.distributions import DiagonalGaussian
from continual_learning.networks.mlp import MLP, initialiser

__all__ = ["MLP", "DiagonalGaussian", "initialiser"]
