"""The memory that a pool shares with its workers."""

from __future__ import annotations

import math
import mmap
from typing import NamedTuple

import numpy as np

from continual_learning.envs.host.protocol import HostStream

ALIGNMENT = 64


class Memory(NamedTuple):
    """Arrays over the same bytes in every process; everything [count, …], an entry an environment.

    Attributes:
      state: float64 [count, state_size], written by the worker to save, by the pool to restore.
      task: int32, number of the task in the stream, written by the pool; −1 before the first.
      episode: int32, number of the episode in the task.
      length: int32, steps of the episode so far, written by the pool.
      action: float32 [count, action_size] or int32 [count], written by the pool.
      observation: float32 [count, observation_size], what to act on next.
      reached: float32 [count, observation_size], what the last step reached, before any restart.
      reward: float32.
      metrics: float32 [count, names].
      terminated, truncated: bool.
      invalid: bool, where the step was cut because its numbers were not finite.
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
        """The arrays in a file of `size` bytes, by its descriptor."""
        return cls.on(mmap.mmap(file, size(stream, count)), stream, count)

    @classmethod
    def on(cls, buffer: mmap.mmap | bytearray, stream: HostStream, count: int) -> Memory:
        """The arrays on `size` bytes."""
        arrays, offset = {}, 0
        for name, (shape, dtype) in _layout(stream, count).items():
            arrays[name] = np.ndarray(shape, dtype, buffer, offset)
            offset += _bytes(shape, dtype)
        return cls(**arrays)


def size(stream: HostStream, count: int) -> int:
    """Bytes of the memory for `count` environments."""
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
    """What an array takes, with the gap to the next."""
    return -(-math.prod(shape) * dtype.itemsize // ALIGNMENT) * ALIGNMENT
