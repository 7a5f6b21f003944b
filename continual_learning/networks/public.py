"""The public names of `continual_learning.networks`, which imports them when one is used."""

from continual_learning import installation

try:
    from continual_learning.networks.cnn import CNN
    from continual_learning.networks.distributions import (
        Categorical,
        DiagonalGaussian,
        TanhGaussian,
    )
    from continual_learning.networks.injection import PlasticityInjection, inject, trainable
    from continual_learning.networks.mlp import MLP, initializer
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"The networks need {error.name}: {installation.command('flax')}.", name=error.name
    ) from None

__all__ = [
    "CNN",
    "MLP",
    "Categorical",
    "DiagonalGaussian",
    "PlasticityInjection",
    "TanhGaussian",
    "initializer",
    "inject",
    "trainable",
]
