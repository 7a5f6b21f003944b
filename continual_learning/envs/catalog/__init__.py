"""The streams of tasks that experiments can name, as descriptions that need no JAX."""

from continual_learning.envs.catalog.stream import STREAMS, Examples, OnDevice, OnHost, Stream

__all__ = ["STREAMS", "Examples", "OnDevice", "OnHost", "Stream"]
