"""The IDX format: arrays of bytes as MNIST is published in.

A file is two zero bytes, the type (8: unsigned bytes), the number of dimensions, each dimension as
a big-endian uint32, and the values in C order.
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np

from continual_learning.envs.errors import DatasetError

_GZIP = b"\x1f\x8b"


def content(data: bytes) -> bytes:
    """`data` unpacked if it is gzipped, whatever its file was called.

    Raises:
      ValueError: the compressed data is damaged or incomplete.
    """
    if not data.startswith(_GZIP):
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"damaged gzip data ({error})") from error


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """The uint8 array of this many dimensions in an IDX file, gzipped or not."""
    try:
        return _parse(content(path.read_bytes()), dimensions)
    except (OSError, ValueError) as error:
        raise DatasetError(
            f"{path} cannot be read as IDX data: {error}. Replace the file by a good copy."
        ) from error


def _parse(data: bytes, dimensions: int) -> np.ndarray:
    magic = bytes((0, 0, 8, dimensions))
    if data[:4] != magic:
        raise ValueError(
            f"it begins with {data[:4].hex(' ') or 'nothing'}, "
            f"not with {magic.hex(' ')} (unsigned bytes in {dimensions} dimensions)"
        )
    start = 4 + 4 * dimensions
    if len(data) < start:
        raise ValueError(f"it is cut off: {len(data)} bytes, and the header alone takes {start}")
    shape = [int(size) for size in np.frombuffer(data, ">u4", dimensions, offset=4)]
    expected = start + math.prod(shape)
    if len(data) != expected:
        state = "cut off" if len(data) < expected else "too long"
        raise ValueError(f"it is {state}: {len(data)} bytes, and shape {shape} takes {expected}")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)
