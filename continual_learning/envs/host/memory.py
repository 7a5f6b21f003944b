"""The memory that a pool shares with its workers."""

from __future__ import annotations

import math
import mmap
from typing import NamedTuple

import numpy as np

from continual_learning.envs.host.protocol import HostStream

ALIGNMENT = 64


class Memory(NamedTuple):
    """Arrays over the same bytes in every process; all are [count, …], for `count` environments.

    Attributes:
      state: float64 [count, state_size]; a worker writes it to save, the pool to restore.
      task: int32, the number of the task in the stream, which the pool writes; −1 before the first.
      episode: int32, the number of the episode in the task.
      length: int32, the number of steps of the current episode, which the pool writes.
      action: float32 [count, action_size] or int32 [count], which the pool writes.
      observation: float32 [count, observation_size], the observations to act on next.
      reached: float32 [count, observation_size], the observations that the last step reached,
        before any restart.
      reward: float32.
      metrics: float32 [count, names].
      terminated, truncated: bool.
      invalid: bool, whether the episode was cut off because the step's numbers were not finite.
    """

    state: np.ndarray
    task: np.ndarray
    episode: np.ndarray
    length: np.ndarray
    action: np.ndarray
    observation: np.ndarray
    reached: np.ndarray
    reward: np.ndarray
    metrics: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    invalid: np.ndarray

    @classmethod
    def over(cls, file: int, stream: HostStream, count: int) -> Memory:
        """Return the arrays in a file.

        Args:
          file: the descriptor of a file of `size` bytes.
          stream: the tasks.
          count: the number of environments.
        """
        return cls.on(mmap.mmap(file, size(stream, count)), stream, count)

    @classmethod
    def on(cls, buffer: mmap.mmap | bytearray, stream: HostStream, count: int) -> Memory:
        """Return the arrays in a buffer.

        Args:
          buffer: `size` bytes.
          stream: the tasks.
          count: the number of environments.
        """
        arrays, offset = {}, 0
        for name, (shape, dtype) in _layout(stream, count).items():
            arrays[name] = np.ndarray(shape, dtype, buffer, offset)
            offset += _bytes(shape, dtype)
        return cls(**arrays)


def size(stream: HostStream, count: int) -> int:
    """Return the number of bytes of the memory for `count` environments."""
    return sum(_bytes(*each) for each in _layout(stream, count).values())


def _layout(stream: HostStream, count: int) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    discrete = stream.actions is not None
    shapes = {
        "state": ((stream.state_size,), np.float64),
        "task": ((), np.int32),
        "episode": ((), np.int32),
        "length": ((), np.int32),
        "action": ((), np.int32) if discrete else ((stream.action_size,), np.float32),
        "observation": ((stream.observation_size,), np.float32),
        "reached": ((stream.observation_size,), np.float32),
        "reward": ((), np.float32),
        "metrics": ((len(stream.metrics),), np.float32),
        "terminated": ((), np.bool_),
        "truncated": ((), np.bool_),
        "invalid": ((), np.bool_),
    }
    return {name: ((count, *shape), np.dtype(dtype)) for name, (shape, dtype) in shapes.items()}


def _bytes(shape: tuple[int, ...], dtype: np.dtype) -> int:
    """Return the number of bytes of an array with the gap to the next one."""
    return -(-math.prod(shape) * dtype.itemsize // ALIGNMENT) * ALIGNMENT
