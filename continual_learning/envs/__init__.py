"""Task streams: what is learned, and how it changes."""

from continual_learning.envs.datasets import Dataset, load_dataset
from continual_learning.envs.errors import DatasetError
from continual_learning.envs.supervised import SupervisedStream, Task

__all__ = ["Dataset", "DatasetError", "SupervisedStream", "Task", "load_dataset"]
