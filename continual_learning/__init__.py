"""Continual learning without plasticity loss: reset methods as Optax transformations."""

from continual_learning.installation import VERSION as __version__

__all__ = ["__version__"]
