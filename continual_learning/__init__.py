"""Continual learning without plasticity loss: reset methods as Optax transformations."""

__version__ = "0.1.0"
