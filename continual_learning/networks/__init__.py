"""Networks of the benchmarks, in Flax Linen."""

from continual_learning.networks.mlp import MLP, initialiser

__all__ = ["MLP", "initialiser"]
