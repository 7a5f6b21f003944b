"""Networks of the benchmarks, in Flax Linen, and the distributions that they parametrise."""

from continual_learning.networks.cnn import CNN
from continual_learning.networks.distributions import Categorical, DiagonalGaussian, TanhGaussian
from continual_learning.networks.mlp import MLP, initialiser

__all__ = ["CNN", "MLP", "Categorical", "DiagonalGaussian", "TanhGaussian", "initialiser"]
