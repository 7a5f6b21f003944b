"""The IDX format, in which MNIST is published.

A file has two zero bytes, the type (8: unsigned bytes), the number of dimensions, every dimension
as a big-endian uint32, and the values in C order.
"""

from __future__ import annotations

import gzip
import io
import math
import zlib
from pathlib import Path

import numpy as np

from continual_learning.envs.errors import DatasetError

_GZIP = b"\x1f\x8b"


LARGEST = 2**30
"""The largest number of bytes of an unpacked file, since 3 MB can unpack to 3 GB."""


def content(data: bytes, most: int = LARGEST) -> bytes:
    """Return the first `most` bytes of `data`, unpacked if it is gzipped, whatever the file's name.

    Raises:
      ValueError: the compressed data is damaged or incomplete.
    """
    if not data.startswith(_GZIP):
        return data[:most]
    try:
        with gzip.open(io.BytesIO(data)) as file:
            return file.read(most)
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"damaged gzip data ({error})") from error


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """Read an IDX file, gzipped or not, into a uint8 array with that many dimensions."""
    try:
        data = path.read_bytes()
        start, shape = _header(data, dimensions)
        expected = start + math.prod(shape)
        if expected > LARGEST:
            raise ValueError(
                f"shape {shape} would take {expected / 1e9:,.1f} GB, and at most "
                f"{LARGEST / 1e9:.1f} GB are read"
            )
        values = content(data, expected + 1)
        if len(values) != expected:
            state = "cut off" if len(values) < expected else "too long"
            size = f"{len(values)} bytes" + " or more" * (len(values) > expected)
            raise ValueError(f"it is {state}: {size}, and shape {shape} takes {expected}")
        return np.frombuffer(values, np.uint8, offset=start).reshape(shape)
    except (OSError, ValueError) as error:
        raise DatasetError(
            f"{path} cannot be read as IDX data: {error}. Replace the file by a good copy."
        ) from error


def count(path: Path) -> int:
    """Return the number of labels in an IDX file, which its header tells."""
    try:
        return _header(path.read_bytes(), 1)[1][0]
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path} cannot be read as IDX data: {error}.") from error


def _header(data: bytes, dimensions: int) -> tuple[int, list[int]]:
    """Return the position at which the values begin, and their shape."""
    start = 4 + 4 * dimensions
    header, magic = content(data, start), bytes((0, 0, 8, dimensions))
    if header[:4] != magic:
        raise ValueError(
            f"it begins with {header[:4].hex(' ') or 'nothing'}, "
            f"not with {magic.hex(' ')} (unsigned bytes in {dimensions} dimensions)"
        )
    if len(header) < start:
        raise ValueError(f"it is cut off: {len(header)} bytes, and the header alone takes {start}")
    return start, [int(size) for size in np.frombuffer(header, ">u4", dimensions, offset=4)]
