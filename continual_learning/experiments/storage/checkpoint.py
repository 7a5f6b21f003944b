"""A checkpoint: a folder with one `.npz` file per lane, a list of the leaves, and checksums.

Nothing is pickled. Leaves are stored by their path in the tree; the tree itself is the caller's.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.experiments.storage.files import StoreError

LEAVES = "leaves.json"
SUMS = "SHA256SUMS"


class Damaged(Exception):
    """A checkpoint is not what was written."""


class Leaf(NamedTuple):
    """What a leaf is in every lane.

    Attributes:
      dtype: as "float32", "key<threefry2x32>" or, for a number that all lanes share, "Python int".
      shape: without the axis of lanes.
    """

    dtype: str
    shape: tuple[int, ...]


def describe(state: Any) -> tuple[int, dict[str, Leaf]]:
    """The number of lanes and {path: leaf} of a tree.

    Args:
      state: tree of arrays or `ShapeDtypeStruct`s [lanes, …], and of Python numbers.
    """
    leaves, lanes = {}, {}
    for path, leaf in _named(state).items():
        if type(leaf) in (bool, int, float):
            leaves[path] = Leaf(f"Python {type(leaf).__name__}", ())
            continue
        if not hasattr(leaf, "dtype") or leaf.dtype == np.dtype(object):
            raise TypeError(
                f"The state's leaf {path!r} must be an array or a Python number, got "
                f"{type(leaf).__name__}."
            )
        if not leaf.shape:
            raise ValueError(f"The state's leaf {path!r} must be [lanes, …], got a scalar.")
        dtype = f"key<{_key_impl(leaf)}>" if _is_key(leaf) else str(leaf.dtype)
        leaves[path] = Leaf(dtype, tuple(leaf.shape[1:]))
        lanes[path] = leaf.shape[0]
    if len(set(lanes.values())) > 1:
        raise ValueError(f"All leaves of a state must have the same number of lanes, got {lanes}.")
    if not lanes:
        raise ValueError("The state holds no array.")
    return next(iter(lanes.values())), leaves


def write(folder: Path, state: Any) -> None:
    """Writes a state into an empty folder.

    Args:
      folder: where.
      state: tree with leaves [lanes, …] (NumPy, JAX, typed keys) or Python numbers.
    """
    lanes, leaves = describe(state)
    arrays = jax.device_get({path: _raw(leaf) for path, leaf in _named(state).items()})
    for lane in range(lanes):
        with zipfile.ZipFile(folder / _lane(lane), "w") as file:
            for path, array in arrays.items():
                value = _bits(array if leaves[path].dtype.startswith("Python") else array[lane])
                # A ZipInfo without a date: the same state gives the same bytes.
                with file.open(zipfile.ZipInfo(f"{path}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, value, allow_pickle=False)
    listing = {path: leaf._asdict() for path, leaf in leaves.items()}
    folder.joinpath(LEAVES).write_text(json.dumps({"lanes": lanes, "leaves": listing}, indent=1))
    names = [LEAVES, *map(_lane, range(lanes))]
    sums = "".join(f"{_sum(folder / name)}  {name}\n" for name in names)
    folder.joinpath(SUMS).write_text(sums)


def read(folder: Path, like: Any) -> Any:
    """The state in a folder, as a tree like `like`; keys are JAX arrays, all others NumPy's.

    Raises:
      Damaged: a file is missing or changed.
      StoreError: the checkpoint is good, but of another state than `like`.
    """
    expected = describe(like)
    with _damage_told():
        lanes, leaves = _listing(folder)
        _check_like(folder, (lanes, leaves), expected)
        stacked = _stacked(folder, range(lanes), leaves)
    return _tree(like, stacked)


def read_lane(folder: Path, like: Any, lane: int) -> Any:
    """Some of one lane's state; no other lane's file is opened.

    Args:
      folder: of the checkpoint.
      like: tree of `ShapeDtypeStruct`s or arrays without an axis of lanes: the leaves that are
        wanted, under the paths that they have in the state.
      lane: its number.

    Raises:
      Damaged: a file of the lane is missing or changed.
      StoreError: the checkpoint is good, but of another state.
    """
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct((1, *x.shape), x.dtype), like)
    _, wanted = describe(one)
    with _damage_told():
        lanes, leaves = _listing(folder, lane)
        leaves = {path: leaf for path, leaf in leaves.items() if path in wanted}
        _check_like(folder, (lanes, leaves), (lanes, wanted))
        stacked = _stacked(folder, [lane], leaves)
    return jax.tree.map(lambda x: x[0], _tree(one, stacked))


@contextlib.contextmanager
def _damage_told() -> Iterator[None]:
    """Turns what a missing or changed file leads to into `Damaged`."""
    try:
        yield
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise Damaged(f"{type(error).__name__}: {error}") from error
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EIO):
            raise
        raise Damaged(str(error)) from error


def _stacked(folder: Path, lanes: Sequence[int], paths: Iterable[str]) -> dict[str, np.ndarray]:
    """{path: [lanes, …]} of these lanes."""
    stacked: dict[str, np.ndarray] = {}
    for row, lane in enumerate(lanes):
        with zipfile.ZipFile(folder / _lane(lane)) as file:
            for path in paths:
                with file.open(f"{path}.npy") as member:
                    array = np.lib.format.read_array(member, allow_pickle=False)
                if row == 0:
                    stacked[path] = np.empty((len(lanes), *array.shape), array.dtype)
                stacked[path][row] = array
    return stacked


def _tree(like: Any, stacked: dict[str, np.ndarray]) -> Any:
    restored = [_restored(stacked[path], leaf) for path, leaf in _named(like).items()]
    return jax.tree.unflatten(jax.tree.structure(like), restored)


def _named(tree: Any) -> dict[str, Any]:
    """{path: leaf}, with '/' between the keys of a path."""
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    named: dict[str, Any] = {}
    for keys, leaf in flat:
        path = jax.tree_util.keystr(keys, simple=True, separator="/")
        if path in named:
            raise ValueError(f"Several leaves of the state have the path {path!r}.")
        named[path] = leaf
    return named


def _lane(lane: int) -> str:
    return f"lane-{lane:04d}.npz"


def _sum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _listing(folder: Path, lane: int | None = None) -> tuple[int, dict[str, Leaf]]:
    """Number of lanes and leaves, once all files, or that of a lane, are found to be as written."""
    lines = folder.joinpath(SUMS).read_text(errors="replace").splitlines()
    sums = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}

    def check(name: str) -> None:
        if _sum(folder / name) != sums.get(name):
            raise Damaged(f"{name} has changed since it was written")

    check(LEAVES)
    content = json.loads(folder.joinpath(LEAVES).read_text())
    lanes = content["lanes"]
    for each in range(lanes) if lane is None else [lane]:
        check(_lane(each))
    leaves = content["leaves"].items()
    return lanes, {path: Leaf(leaf["dtype"], tuple(leaf["shape"])) for path, leaf in leaves}


def _check_like(
    folder: Path, stored: tuple[int, dict[str, Leaf]], expected: tuple[int, dict[str, Leaf]]
) -> None:
    problem = None
    (lanes, leaves), (expected_lanes, expected_leaves) = stored, expected
    missing, more = expected_leaves.keys() - leaves.keys(), leaves.keys() - expected_leaves.keys()
    if missing or more:
        problem = f"it lacks the leaves {sorted(missing)} and has {sorted(more)} besides"
    elif lanes != expected_lanes:
        problem = f"it has {lanes} lanes, this program {expected_lanes}"
    else:
        for path, leaf in leaves.items():
            if leaf != expected_leaves[path]:
                problem = f"leaf {path!r} is {_text(leaf)}, here {_text(expected_leaves[path])}"
                break
    if problem:
        raise StoreError(
            f"The checkpoint {folder} is of another program: {problem}. Resume with the version "
            "and the settings that wrote it, or start in another folder."
        )


def _text(leaf: Leaf) -> str:
    return f"{leaf.dtype} {list(leaf.shape)}"


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _key_impl(leaf: Any) -> str:
    """Name of the generator of a typed key, which may be a `ShapeDtypeStruct`."""
    found = []
    jax.eval_shape(lambda key: found.append(jax.random.key_impl(key)), leaf)
    return str(found[0])


def _raw(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if hasattr(leaf, "dtype") and _is_key(leaf) else leaf


def _bits(value: Any) -> np.ndarray:
    """An array that NumPy can write by itself: bfloat16 and the like become unsigned integers."""
    array = np.asarray(value)
    if array.dtype == np.dtype(object):
        raise ValueError(f"{value!r} does not fit into 64 bits.")
    if array.dtype.kind == "V" and array.dtype.names is None:
        return array.view(f"u{array.dtype.itemsize}")
    return array


def _restored(stacked: np.ndarray, like: Any) -> Any:
    if type(like) in (bool, int, float):
        return stacked[0].item()
    if _is_key(like):
        return jax.random.wrap_key_data(jnp.asarray(stacked), impl=_key_impl(like))
    return stacked.view(like.dtype)
