"""Names the leaves of trees, and stores arrays by name in `.npz` files with checksums.

Nothing is pickled, and the same arrays give the same bytes.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from continual_learning.schema import earlier
from continual_learning.studies.store.files import reading


class Damaged(Exception):
    """A checkpoint has changed since it was written."""


def named(tree: Any) -> dict[str, Any]:
    """Return {path: leaf} of a tree, with '/' between the keys of a path."""
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    found: dict[str, Any] = {}
    for keys, leaf in flat:
        path = jax.tree_util.keystr(keys, simple=True, separator="/")
        if path in found:
            raise ValueError(f"Several leaves of the state have the path {path!r}.")
        found[path] = leaf
    return found


def current(path: str) -> str:
    """Return the present name of a leaf that an earlier version stored."""
    return "/".join(map(earlier.current, path.split("/")))


def lane_file(lane: int) -> str:
    """Return the name of the file of a lane."""
    return f"lane-{lane:04d}.npz"


def write(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays, or Python numbers, into a new file."""
    with zipfile.ZipFile(path, "x") as file:
        for name, array in arrays.items():
            # A ZipInfo without a date makes the same arrays give the same bytes.
            with file.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, _bits(array), allow_pickle=False)


def read(path: Path, names: Iterable[str]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield (name, array) of these names; types that NumPy lacks come as unsigned integers."""
    with reading(path) as opened, zipfile.ZipFile(opened) as file:
        stored = {current(name.removesuffix(".npy")): name for name in file.namelist()}
        for name in names:
            with file.open(stored[name]) as member:
                yield name, np.lib.format.read_array(member, allow_pickle=False)


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with reading(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check(path: Path, expected: str | None) -> None:
    """Raise `Damaged` unless a file has this checksum."""
    if checksum(path) != expected:
        raise Damaged(f"{path.parent.name}/{path.name} has changed since it was written")


def _bits(value: Any) -> np.ndarray:
    """Return an array that NumPy can write; bfloat16 and the like become unsigned integers."""
    array = np.asarray(value)
    if array.dtype == np.dtype(object):
        raise ValueError(f"{value!r} does not fit into 64 bits.")
    if array.dtype.kind == "V" and array.dtype.names is None:
        return array.view(f"u{array.dtype.itemsize}")
    return array
