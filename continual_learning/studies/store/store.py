"""The folder of a study: its description, its metrics, its checkpoints and its log.

docs/data_format.md describes every file.
"""

from __future__ import annotations

import datetime
import math
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from continual_learning import extras
from continual_learning.studies.store import checkpoint, manifest
from continual_learning.studies.store.checkpoints import Checkpoints
from continual_learning.studies.store.files import (
    StoreError,
    check_no_links,
    explained,
    make_folder,
    sweep,
    write_file,
    writing,
)
from continual_learning.studies.store.lock import Lock
from continual_learning.studies.store.parts import Parts, read_part

__all__ = ["Store", "StoreError"]

extras.require("studies", "pyarrow", "pandas", "tomli-w")

_LOCK, _LOG = "lock", "log.txt"
# Files that `create` may have left when it was killed before it wrote the study.
_UNFINISHED = {_LOCK, _LOG, manifest.ENVIRONMENT}


class Store:
    """A study on the disk, made by `Store.create`, `Store.open` or `Store.read`.

    To run a method, call `restore` first, then `write_part` and `save` for every chunk after the
    restored one. A process that is killed at any moment loses at most the chunks after its newest
    checkpoint; `restore` removes their rows, and the chunks are run again.

    Attributes:
      path: the folder.
      study: the study as plain data.
      environment: the versions, the commit and the device, as the caller found them.
    """

    def __init__(self, path: Path, lock: Lock | None):
        self.path = path
        self.study, self.environment = manifest.read(path)
        self._parts = Parts(path / "metrics")
        self._checkpoints = Checkpoints(path / "checkpoints")
        self._lock = lock

    @classmethod
    def create(
        cls, path: str | Path, study: Mapping[str, Any], environment: Mapping[str, Any]
    ) -> Store:
        """Start a study in a new or empty folder, for writing.

        Args:
          path: the folder, which is made with its parents.
          study: plain data: str, int, float, bool, lists, dicts.
          environment: data that JSON can hold.
        """
        path = Path(path)
        files = manifest.encode(study, environment)
        with explained("make the folder", path):
            make_folder(path)
            _check_empty(path)
        lock = Lock(path / _LOCK)
        try:
            _check_empty(path)  # another process may have been faster
            sweep(path)
            for name, content in files.items():
                write_file(path / name, content)
            return cls(path, lock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(cls, path: str | Path, study: Mapping[str, Any] | None = None) -> Store:
        """Open a study for writing, which one process at a time can do.

        Args:
          path: the folder of the study.
          study: the study that the folder must hold, if given; a StoreError lists the fields that
            differ.
        """
        path = Path(path)
        stored, _ = manifest.read(path)  # before the lock, which would leave a file in any folder
        if study is not None:
            manifest.check_same(path, stored, study)
        lock = Lock(path / _LOCK)
        try:
            store = cls(path, lock)
            store._sweep()
            return store
        except BaseException:
            lock.release()
            raise

    @classmethod
    def read(cls, path: str | Path) -> Store:
        """Open a study for reading, even while another process writes it."""
        return cls(Path(path), None)

    def close(self) -> None:
        """Release the lock, so that other processes can write."""
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write_part(self, method: str, chunk: int, columns: Mapping[str, Any]) -> None:
        """Write the metrics of a chunk, before the checkpoint that refers to them.

        Args:
          method: the name of the method.
          chunk: 0, 1, …; every chunk needs a part, even one without rows.
          columns: {name: [rows]}, numbers or strings: `seed`, `step` and `task` (whole numbers),
            hyper-parameters under names that begin with `hyper_`, and metrics. All parts of a
            method have the same columns, and a name has one type in the whole study.
        """
        newest = self._check_new(method, chunk)
        self._parts.write(method, chunk, columns, newest)

    def read_part(self, method: str, chunk: int) -> dict[str, np.ndarray]:
        """Return the metrics of a chunk, as they were written."""
        table = read_part(self._parts.path(method, chunk))
        return {name: table[name].to_numpy() for name in table.column_names if name != "method"}

    def save(
        self,
        method: str,
        chunk: int,
        state: Any,
        lanes: int | None = None,
        ring: str | None = None,
    ) -> None:
        """Save the state after a chunk, and keep only the newest two checkpoints of the method.

        Args:
          method: the name of the method.
          chunk: the last chunk that is done, whose part must have been written.
          state: a tree of NumPy's or JAX's arrays [lanes, …], with typed keys too, and of Python
            numbers that all lanes share.
          lanes: the number of lanes to save, from the first on, or None for all.
          ring: the path of a ring (`ring.py`) in the state, or None. Only the rows that were added
            since the newest checkpoint are copied and written, so the state must come from it.
        """
        self._check_new(method, chunk)
        part = self._parts.path(method, chunk)
        if not part.exists():
            raise StoreError(
                f"Cannot save chunk {chunk} of {method}: write its part first, {part} is not there."
            )
        of = checkpoint.bound(self.study, method, chunk)
        self._checkpoints.write(method, chunk, state, lanes, ring, of)

    def restore(self, method: str, like: Any, lane: int | None = None) -> tuple[int, Any] | None:
        """Return the newest good checkpoint as (chunk, state), or None if there is none yet.

        If the store is open for writing, this removes the parts of later chunks and the rows of a
        ring that no checkpoint of the method needs. A checkpoint that is damaged, or has missing or
        damaged rows before it, is passed over with a warning and a line in the log, and set aside.

        Args:
          method: the name of the method.
          like: a tree like the saved one, of arrays or `jax.ShapeDtypeStruct`s [lanes, …].
          lane: the only lane to read, or None for all. With a lane, `like` has no axis of lanes and
            may lack leaves.
        """
        _check_name(method)
        if self._lock is not None:
            self._check_writable()
        damaged: dict[int, str] = {}
        kept = self._checkpoints.of(method)
        rows, lost = math.inf, ""
        if self._lock is not None and kept:
            rows, lost = self._parts.readable(method, kept[-1] + 1)
        for chunk in reversed(kept):
            folder = self._checkpoints.path(method, chunk)
            of = checkpoint.bound(self.study, method, chunk)
            if chunk >= rows:
                damaged[chunk] = f"The rows before the checkpoint {folder} are not complete: {lost}"
                continue
            try:
                with explained("read", folder):
                    if lane is None:
                        state = checkpoint.read(folder, like, of)
                    else:
                        state = checkpoint.read_lane(folder, like, lane, of)
            except checkpoint.Damaged as reason:
                damaged[chunk] = f"The checkpoint {folder} is damaged: {reason}."
                continue
            self._fall_back(method, damaged, chunk)
            return chunk, state
        if damaged:
            raise StoreError(
                "\n".join(damaged.values()) + f"\n{method} has no other checkpoint, so it cannot "
                "go on from here. Nothing was removed, and its metrics were not touched "
                f"({self._parts.folder / method}). Copy the missing or damaged files back and "
                "resume, or begin anew: `continual run` into a new folder."
            )
        self._start_over(method)
        return None

    def saved(self) -> list[str]:
        """Return the methods that have a checkpoint."""
        return [m for m in self._checkpoints.methods() if self._checkpoints.of(m)]

    def progress(self) -> dict[str, int]:
        """Return {method: the number of chunks with a checkpoint and with all rows up to it}.

        If all checkpoints of a method were removed later, its chunks with rows count.
        """
        methods = sorted({*self._checkpoints.methods(), *self._parts.methods()})
        return {m: self._complete(m) for m in methods}

    def lost_rows(self, method: str) -> Path | None:
        """Return the first missing or cut off part before the newest checkpoint, or None."""
        kept = self._checkpoints.of(method)
        whole = self._parts.whole(method, kept[-1] + 1) if kept else 0
        return self._parts.path(method, whole) if kept and whole <= kept[-1] else None

    def log(self, line: str) -> None:
        """Append a line to the log, with the time (UTC)."""
        self._check_writable()
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        path = self.path / _LOG
        # One call writes a line, so that lines of several processes do not mix.
        with explained("write", path), writing(path, new=False) as file:
            file.write(f"{now} {' '.join(line.splitlines())}\n".encode())

    def _complete(self, method: str) -> int:
        if kept := self._checkpoints.of(method):
            return self._parts.whole(method, max(kept) + 1)
        removed = self._parts.newest_checkpoint(method) is not None
        parts = self._parts.of(method)
        return self._parts.whole(method, max(parts) + 1) if removed else 0

    def _check_writable(self) -> None:
        if self._lock is None or not self._lock.held:
            state = "opened for reading" if self._lock is None else "closed"
            raise StoreError(f"{self.path} is {state}: use Store.open to write.")

    def _check_new(self, method: str, chunk: int) -> int | None:
        """Return the newest checkpoint, or None; raise an error if a chunk may not be written."""
        self._check_writable()
        _check_name(method)
        if chunk < 0:
            raise ValueError(f"Chunks are numbered 0, 1, …; got {chunk}.")
        newest = max(self._checkpoints.of(method), default=None)
        if newest is not None and chunk <= newest:
            raise StoreError(
                f"Chunk {chunk} of {method} in {self.path} is complete: its newest checkpoint is "
                f"{newest}. Call `restore` and go on with chunk {newest + 1}."
            )
        return newest

    def _fall_back(self, method: str, damaged: Mapping[int, str], chunk: int) -> None:
        """Make `chunk` the newest of a method, and report the checkpoints that were passed over."""
        for number, reason in damaged.items():
            message = f"{reason} The study falls back to the checkpoint after chunk {chunk}."
            warnings.warn(message, stacklevel=3)
            if self._lock is not None:
                self.log(f"{method}: {message}")
                self._checkpoints.set_aside(method, number)
        if self._lock is not None:
            self._checkpoints.drop_needless_rows(method)
            self._parts.drop_after(method, chunk)

    def _start_over(self, method: str) -> None:
        """Remove the parts of a method that was killed before its first checkpoint."""
        if self._lock is None:
            return
        newest = self._parts.newest_checkpoint(method)
        if newest is not None:
            raise StoreError(
                f"{self.path} has metrics of {method}, but its checkpoints are gone; there was one "
                f"after chunk {newest}. Copy them back to go on. To train {method} again, delete "
                f"{self.path / 'metrics' / method} first, or choose another folder."
            )
        self._checkpoints.drop_needless_rows(method)
        self._parts.drop_after(method, None)

    def _sweep(self) -> None:
        for folder in (self._parts.folder, self._checkpoints.folder):
            check_no_links(folder)
        sweep(self.path)
        self._parts.sweep()
        self._checkpoints.sweep()


def _check_empty(path: Path) -> None:
    if path.joinpath(manifest.STUDY).exists():
        raise StoreError(
            f"{path} holds a study already. Resume it, or choose another folder for a new one."
        )
    others = sorted(
        f.name
        for f in path.iterdir()
        if f.name not in _UNFINISHED and not re.fullmatch(r"\..*\.tmp", f.name)
    )
    if others:
        raise StoreError(
            f"{path} is not empty ({', '.join(others[:5])}{', …' if len(others) > 5 else ''}). "
            "Choose another folder for the study."
        )


def _check_name(method: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", method):
        raise ValueError(
            f"The name of a method becomes a folder: it may have letters, digits, '_', '-' and "
            f"'.', and may not begin with '-' or '.'; got {method!r}."
        )
