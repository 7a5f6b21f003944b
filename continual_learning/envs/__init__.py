"""Task streams: what is learned, and how it changes."""

from continual_learning.envs.datasets import Dataset, load_dataset
from continual_learning.envs.errors import DatasetError

__all__ = ["Dataset", "DatasetError", "load_dataset"]
