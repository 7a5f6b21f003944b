"""A checkpoint: a folder with one `.npz` file per lane, a list of the leaves, and checksums.

Nothing is pickled. Leaves are stored by their path in the tree; the caller provides the tree
itself. The rows of a ring (`ring.py`) are in folders beside the checkpoint, which names them.
"""

from __future__ import annotations

import contextlib
import errno
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.studies.store import arrays, manifest, ring
from continual_learning.studies.store.arrays import Damaged, lane_file, named
from continual_learning.studies.store.files import StoreError, reading

LEAVES = "leaves.json"
SUMS = "SHA256SUMS"
# Fields of an experiment that do not change the shape of its state.
_SHAPELESS = {
    "collapse",
    "compilation",
    "methods",
    "name",
    "scales",
    "seeds",
    "tasks",
    "title",
    "workers",
}


class Leaf(NamedTuple):
    """The type of a leaf, which is the same in every lane.

    Attributes:
      dtype: a text such as "float32" or "key<threefry2x32>", or "Python int" for a number that all
        lanes share.
      shape: the shape without the axis of lanes.
    """

    dtype: str
    shape: tuple[int, ...]


class Listing(NamedTuple):
    """The list of the content of a checkpoint.

    Attributes:
      lanes: the number of lanes.
      leaves: {path: leaf}.
      kept: the place of the rows of a ring, or None if there is no ring.
      of: the origin of the checkpoint, by `bound`, or None in those of older versions.
    """

    lanes: int
    leaves: dict[str, Leaf]
    kept: ring.Kept | None
    of: dict[str, Any] | None


def describe(state: Any) -> tuple[int, dict[str, Leaf]]:
    """Return the number of lanes and {path: leaf} of a tree.

    Args:
      state: a tree of arrays or `ShapeDtypeStruct`s [lanes, …], and of Python numbers.
    """
    leaves, lanes = {}, {}
    for path, leaf in named(state).items():
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
        dtype = f"key<{key_impl(leaf)}>" if _is_key(leaf) else str(leaf.dtype)
        leaves[path] = Leaf(dtype, tuple(leaf.shape[1:]))
        lanes[path] = leaf.shape[0]
    if len(set(lanes.values())) > 1:
        raise ValueError(f"All leaves of a state must have the same number of lanes, got {lanes}.")
    if not lanes:
        raise ValueError("The state holds no array.")
    return next(iter(lanes.values())), leaves


def bound(study: Mapping[str, Any], method: str, chunk: int) -> dict[str, Any]:
    """Return the origin of a checkpoint: method, chunk, and the settings that shape its state.

    Args:
      study: the study as plain data.
      method: the name of the method.
      chunk: the last chunk that is done.
    """
    settings = {name: value for name, value in study.items() if name != "methods"}
    experiment = study.get("experiment")
    if isinstance(experiment, Mapping):
        own = {name: value for name, value in experiment.items() if name not in _SHAPELESS}
        methods = experiment.get("methods")
        own["method"] = methods.get(method) if isinstance(methods, Mapping) else None
        settings["experiment"] = own
    return {"method": method, "chunk": chunk, "study": settings}


def write(
    folder: Path,
    state: Any,
    lanes: int | None = None,
    kept: ring.Kept | None = None,
    of: Mapping[str, Any] | None = None,
) -> None:
    """Write a state into an empty folder.

    Args:
      folder: the folder.
      state: a tree with leaves [lanes, …] (NumPy, JAX, typed keys) or Python numbers.
      lanes: the number of lanes to write, from the first on, or None for all.
      kept: the place beside this folder where the rows of a ring have been written, or None.
      of: the origin of the checkpoint, by `bound`.
    """
    count, leaves = describe(state)
    lanes = count if lanes is None else lanes
    own = {path: _raw(leaf) for path, leaf in named(state).items() if not _elsewhere(path, kept)}
    own = jax.device_get(own)
    shared = {path for path in own if leaves[path].dtype.startswith("Python")}
    for lane in range(lanes):
        values = {path: x if path in shared else x[lane] for path, x in own.items()}
        arrays.write(folder / lane_file(lane), values)
    content: dict[str, Any] = {"lanes": lanes}
    if of is not None:
        content["of"] = of
    content["leaves"] = {path: leaf._asdict() for path, leaf in leaves.items()}
    if kept is not None:
        content["ring"] = kept.content()
    folder.joinpath(LEAVES).write_text(json.dumps(content, indent=1))
    names = [LEAVES, *map(lane_file, range(lanes))]
    sums = {name: arrays.checksum(folder / name) for name in names}
    if kept is not None:
        sums |= kept.sums()
    folder.joinpath(SUMS).write_text("".join(f"{sum}  {name}\n" for name, sum in sums.items()))


def read(folder: Path, like: Any, of: Mapping[str, Any] | None = None) -> Any:
    """Return the state in a folder as a tree like `like`, of JAX's keys and NumPy's arrays.

    Args:
      folder: the folder of the checkpoint.
      like: a tree of arrays or `ShapeDtypeStruct`s [lanes, …].
      of: the origin that the checkpoint must have if it names one, by `bound`.

    Raises:
      Damaged: if a file is missing or changed.
      StoreError: if the checkpoint is good, but has another state than `like` or another origin.
    """
    expected = describe(like)
    with _damage_told():
        listing = _listing(folder)
        _check_of(folder, listing.of, of)
        _check_like(folder, (listing.lanes, listing.leaves), expected)
        stacked = _stacked(folder, listing, range(listing.lanes), listing.leaves)
    return _tree(like, stacked)


def read_lane(folder: Path, like: Any, lane: int, of: Mapping[str, Any] | None = None) -> Any:
    """Return leaves of the state of one lane, without opening the files of other lanes.

    Args:
      folder: the folder of the checkpoint.
      like: a tree of `ShapeDtypeStruct`s or arrays without an axis of lanes: the leaves to read,
        under the paths that they have in the state.
      lane: the number of the lane.
      of: the origin, as in `read`.

    Raises:
      Damaged: if a file of the lane is missing or changed.
      StoreError: if the checkpoint is good, but has another state or another origin.
    """
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct((1, *x.shape), x.dtype), like)
    _, wanted = describe(one)
    with _damage_told():
        listing = _listing(folder, [lane])
        _check_of(folder, listing.of, of)
        leaves = {path: leaf for path, leaf in listing.leaves.items() if path in wanted}
        _check_like(folder, (listing.lanes, leaves), (listing.lanes, wanted))
        stacked = _stacked(folder, listing, [lane], leaves)
    return jax.tree.map(lambda x: x[0], _tree(one, stacked))


def rows_kept(folder: Path) -> ring.Kept | None:
    """Return the place of the rows of a checkpoint's ring, or None; raise `Damaged` as `read`."""
    with _damage_told():
        return _listing(folder, []).kept


@contextlib.contextmanager
def _damage_told() -> Iterator[None]:
    """Turn the errors that a missing or changed file causes into `Damaged`."""
    try:
        yield
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise Damaged(f"{type(error).__name__}: {error}") from error
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EIO, errno.EINVAL):
            raise
        raise Damaged(str(error)) from error


def _stacked(
    folder: Path, listing: Listing, lanes: Sequence[int], leaves: Mapping[str, Leaf]
) -> dict[str, np.ndarray]:
    """Return {path: [lanes, …]} of these lanes."""
    kept = listing.kept
    own = [path for path in leaves if not _elsewhere(path, kept)]
    rows = {path: leaf for path, leaf in leaves.items() if _elsewhere(path, kept)}
    stacked: dict[str, np.ndarray] = {}
    for row, lane in enumerate(lanes):
        found = dict(arrays.read(folder / lane_file(lane), own))
        if kept is not None and rows:
            found |= ring.read(folder.parent, kept, lane, rows)
        for path, array in found.items():
            if row == 0:
                stacked[path] = np.empty((len(lanes), *array.shape), array.dtype)
            stacked[path][row] = array
    return stacked


def _tree(like: Any, stacked: dict[str, np.ndarray]) -> Any:
    restored = [_restored(stacked[path], leaf) for path, leaf in named(like).items()]
    return jax.tree.unflatten(jax.tree.structure(like), restored)


def _elsewhere(path: str, kept: ring.Kept | None) -> bool:
    """Return whether a leaf is stored beside the checkpoint rather than in it."""
    return kept is not None and kept.holds(path)


def _listing(folder: Path, lanes: Sequence[int] | None = None) -> Listing:
    """Return the list of a checkpoint after a check of it and of the files of lanes, or of all."""
    with reading(folder / SUMS) as file:
        lines = file.read().decode(errors="replace").splitlines()
    sums = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    arrays.check(folder / LEAVES, sums.get(LEAVES))
    content = json.loads(folder.joinpath(LEAVES).read_text())
    for lane in range(content["lanes"]) if lanes is None else lanes:
        arrays.check(folder / lane_file(lane), sums.get(lane_file(lane)))
    leaves = {
        arrays.current(path): Leaf(leaf["dtype"], tuple(leaf["shape"]))
        for path, leaf in content["leaves"].items()
    }
    kept = ring.Kept.of(content["ring"], sums) if "ring" in content else None
    return Listing(content["lanes"], leaves, kept, content.get("of"))


def _check_of(folder: Path, stored: Any, expected: Mapping[str, Any] | None) -> None:
    if stored is None or expected is None:
        return
    lines = [
        f"  {name}: {there!r} in the checkpoint, {here!r} here"
        for name, (there, here) in manifest.differences(stored, expected).items()
    ]
    if lines:
        raise StoreError(
            f"The checkpoint {folder} belongs to something else:\n" + "\n".join(lines) + "\n"
            "Copy back the one that was here, or resume the study that it belongs to."
        )


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


def key_impl(leaf: Any) -> str:
    """Return the name of the generator of a typed key, which may be a `ShapeDtypeStruct`."""
    found = []
    jax.eval_shape(lambda key: found.append(jax.random.key_impl(key)), leaf)
    return str(found[0])


def _raw(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if hasattr(leaf, "dtype") and _is_key(leaf) else leaf


def _restored(stacked: np.ndarray, like: Any) -> Any:
    if type(like) in (bool, int, float):
        return stacked[0].item()
    if _is_key(like):
        return jax.random.wrap_key_data(jnp.asarray(stacked), impl=key_impl(like))
    return stacked.view(like.dtype)
