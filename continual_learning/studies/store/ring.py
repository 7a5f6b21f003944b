"""Stores a ring buffer beside the checkpoints, which write only the rows added since the last one.

A ring is a part of a state with `rows` [lanes, capacity, …] (one array or a tree of them), `added`
and `cleared` (whole numbers [lanes]). The row that was added as number i is in place i % capacity,
and rows with numbers below `cleared` are never read again. A segment is a folder with a file per
lane, which has the rows of some numbers. A checkpoint names the segments that it needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.studies.store import arrays
from continual_learning.studies.store.arrays import lane_file
from continual_learning.studies.store.files import new_folder, remove_folder

# The rows copied from a device at a time, a fixed number, so that one program copies any number.
BLOCK = 8192

Spans = list[tuple[int, int]]
"""The numbers of some rows of every lane, from the first number to below the second."""


class Segment(NamedTuple):
    """A folder of rows.

    Attributes:
      spans: the rows in the file of every lane.
      sums: the checksum of every file.
    """

    spans: Spans
    sums: list[str]


class Kept(NamedTuple):
    """The place of the rows of a ring.

    Attributes:
      path: the path of the ring in the state.
      live: the rows that can still be read.
      segments: {name of the folder: segment}, oldest first, which together have all live rows.
    """

    path: str
    live: Spans
    segments: dict[str, Segment]

    def holds(self, leaf: str) -> bool:
        """Return whether the leaf at this path is in the segments."""
        return _is_row(self.path, leaf)

    def content(self) -> dict[str, Any]:
        """Return the entry of the ring in a checkpoint's list of leaves, for JSON."""
        spans = {name: segment.spans for name, segment in self.segments.items()}
        return {"path": self.path, "live": self.live, "segments": spans}

    def sums(self) -> dict[str, str]:
        """Return {path of a file relative to the checkpoint: checksum}."""
        return {
            _file(name, lane): sum
            for name, segment in self.segments.items()
            for lane, sum in enumerate(segment.sums)
        }

    @classmethod
    def of(cls, content: Mapping[str, Any], sums: Mapping[str, str]) -> Kept:
        """Return the place that `content` and `sums` describe."""
        segments = {
            name: Segment(_pairs(spans), [sums[_file(name, i)] for i in range(len(spans))])
            for name, spans in content["segments"].items()
        }
        return cls(content["path"], _pairs(content["live"]), segments)


def append(folder: Path, state: Any, path: str, lanes: int, before: Kept | None) -> Kept:
    """Write the live rows that no earlier segment has into a new one; return the place of all.

    Only these rows are copied from the devices.

    Args:
      folder: the folder of the new segment, which replaces one that a killed process left.
      state: a tree of arrays [lanes, …], which may have more lanes than are kept.
      path: the path of the ring in the state.
      lanes: the number of lanes to keep.
      before: the place of the rows that the checkpoint before has, or None.
    """
    rows, live = _find(state, path, lanes)
    old = {} if before is None else before.segments
    had = [max((each.spans[lane][1] for each in old.values()), default=0) for lane in range(lanes)]
    if any(stop < upto for upto, (_, stop) in zip(had, live, strict=True)):
        raise ValueError(
            f"The ring {path!r} has fewer rows than the checkpoint before: a state must come from "
            "the newest checkpoint. Call `restore` first and go on from there."
        )
    new = [(max(first, upto), stop) for upto, (first, stop) in zip(had, live, strict=True)]
    segments = {name: each for name, each in old.items() if _overlap(each.spans, live)}
    if folder.exists():
        remove_folder(folder)
    if _overlap(new, live):
        sums = []
        with new_folder(folder) as draft:
            for lane, span in enumerate(new):
                file = draft / lane_file(lane)
                copied = {name: _copied(array, lane, *span) for name, array in rows.items()}
                arrays.write(file, copied)
                sums.append(arrays.checksum(file))
        segments[folder.name] = Segment(new, sums)
    return Kept(path, live, segments)


def read(folder: Path, kept: Kept, lane: int, like: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the rows of a lane, {path: [capacity, …]}; rows that are never read again are zero.

    Args:
      folder: the folder of the segments.
      kept: the place of the rows, as a checkpoint has it.
      lane: the number of the lane.
      like: {path: an object with the shape and the dtype}.
    """
    rows = {path: np.zeros(leaf.shape, jnp.dtype(leaf.dtype)) for path, leaf in like.items()}
    first, stop = kept.live[lane]
    found = 0
    for name, segment in kept.segments.items():
        begin, end = segment.spans[lane]
        start = max(begin, first)
        if start >= end:
            continue
        file = folder / name / lane_file(lane)
        arrays.check(file, segment.sums[lane])
        for path, array in arrays.read(file, rows):
            at = np.arange(start, end) % len(rows[path])
            rows[path][at] = array.view(rows[path].dtype)[start - begin :]
        found += end - start
    if found != stop - first:
        raise arrays.Damaged(f"of {stop - first} rows of lane {lane}, {found} are there")
    return rows


def _find(state: Any, path: str, lanes: int) -> tuple[dict[str, Any], Spans]:
    """Return {path: [lanes, capacity, …]} of a ring, and the rows that can be read."""
    leaves = arrays.named(state)
    rows = {name: leaf for name, leaf in leaves.items() if _is_row(path, name)}
    counts = [leaves.get(f"{path}/{name}") for name in ("added", "cleared")]
    if not rows or any(count is None for count in counts):
        raise ValueError(
            f"The state has no ring at {path!r}: it must have {path}/rows, {path}/added and "
            f"{path}/cleared, and has {sorted(leaves)}."
        )
    for name, leaf in rows.items():
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            raise TypeError(f"A ring can hold no typed keys, but {name!r} does: store key data.")
    capacities = {name: leaf.shape[1] for name, leaf in rows.items()}
    if len(set(capacities.values())) > 1:
        raise ValueError(f"All rows of a ring must have the same capacity, got {capacities}.")
    capacity = next(iter(capacities.values()))
    numbers = (np.asarray(count)[:lanes].tolist() for count in jax.device_get(counts))
    live = [
        (max(cleared, added - capacity), added) for added, cleared in zip(*numbers, strict=True)
    ]
    return rows, live


def _file(segment: str, lane: int) -> str:
    return f"../{segment}/{lane_file(lane)}"


def _pairs(spans: Any) -> Spans:
    return [(first, stop) for first, stop in spans]


def _is_row(path: str, leaf: str) -> bool:
    return leaf == f"{path}/rows" or leaf.startswith(f"{path}/rows/")


def _overlap(spans: Spans, live: Spans) -> bool:
    """Return whether some lane has a row in both; no span ends after the live rows."""
    return any(
        stop > max(begin, first) for (begin, stop), (first, _) in zip(spans, live, strict=True)
    )


def _copied(rows: Any, lane: int, first: int, stop: int) -> np.ndarray:
    """Return [stop - first, …], the rows of these numbers in [lanes, capacity, …]."""
    capacity = rows.shape[1]
    if not isinstance(rows, jax.Array):
        return rows[lane, np.arange(first, stop) % capacity]
    there, index = _held(rows, lane)
    copied = np.empty((stop - first, *rows.shape[2:]), rows.dtype)
    for begin in range(0, stop - first, BLOCK):
        end = min(begin + BLOCK, stop - first)
        block = _block(there, np.int32(index), np.int32((first + begin) % capacity))
        copied[begin:end] = jax.device_get(block)[: end - begin]
    return copied


def _held(rows: jax.Array, lane: int) -> tuple[jax.Array, int]:
    """Return the lanes on the device that has this one, without a copy, and its number there."""
    for shard in rows.addressable_shards:
        here = range(rows.shape[0])[shard.index[0]]
        if lane in here:
            return shard.data, here.index(lane)
    raise ValueError(f"No device of this process holds lane {lane}.")


@jax.jit
def _block(rows: jax.Array, lane: jax.Array, first: jax.Array) -> jax.Array:
    """Return the rows of a lane of [lanes, capacity, …] from place `first` on, around the ring."""
    capacity = rows.shape[1]
    at = (first + jnp.arange(min(BLOCK, capacity), dtype=jnp.int32)) % capacity
    return rows.at[lane, at].get(mode="promise_in_bounds")
