"""Metrics as Parquet parts, one per method and chunk: `metrics/METHOD/part-000012.parquet`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from continual_learning.schema import earlier
from continual_learning.studies.store.files import StoreError, explained, reading, sweep, write_file
from continual_learning.studies.store.manifest import SCHEMA

if TYPE_CHECKING:
    import pyarrow as pa

INDEX = ("seed", "step", "task")  # columns of whole numbers in every part
HYPER = "hyper_"  # start of the name of a column with a hyper-parameter

_MAGIC = b"PAR1"
_SCHEMA_KEY = b"continual_learning.schema"
_AFTER_KEY = b"continual_learning.after_checkpoint"


class Parts:
    """The parts of all methods.

    Args:
      folder: the folder `metrics` in the folder of a study.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    def methods(self) -> list[str]:
        """Return the names of the methods that have a folder."""
        return sorted(f.name for f in self.folder.glob("[!.]*") if f.is_dir())

    def of(self, method: str) -> dict[int, Path]:
        """Return {chunk: file} of the complete parts of a method, in order."""
        files = self.folder.joinpath(method).glob("part-*.parquet")
        found = {int(m[1]): f for f in files if (m := re.fullmatch(r"part-(\d+)", f.stem))}
        return dict(sorted(found.items()))

    def whole(self, method: str, chunks: int) -> int:
        """Return how many of the first `chunks` parts precede the first that is missing or cut off.

        This method reads only the ends of files; `readable` reads them whole.
        """
        paths = (self.path(method, chunk) for chunk in range(chunks))
        return next((chunk for chunk, path in enumerate(paths) if not _is_whole(path)), chunks)

    def readable(self, method: str, chunks: int) -> tuple[int, str]:
        """Return how many of the first `chunks` parts precede an unreadable one, and the reason."""
        for chunk in range(chunks):
            path = self.path(method, chunk)
            try:
                read_part(path)
            except FileNotFoundError:
                return chunk, f"{path} is missing."
            except StoreError as error:
                return chunk, str(error)
        return chunks, ""

    def path(self, method: str, chunk: int) -> Path:
        """Return the path of the file of a part."""
        return self.folder / method / f"part-{chunk:06d}.parquet"

    def write(self, method: str, chunk: int, columns: Mapping[str, Any], after: int | None) -> None:
        """Write or replace a part.

        Args:
          method: the name of the method.
          chunk: the number of the part; the part before it must exist.
          columns: {name: [rows]}, with `seed`, `step` and `task`.
          after: the newest checkpoint at this moment, or None.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = _table(method, columns)
        if chunk:
            before = self.path(method, chunk - 1)
            if not before.exists():
                raise StoreError(
                    f"Cannot write part {chunk} of {method}: {before} is not there. Parts are "
                    "written in order, one for every chunk, without rows if need be."
                )
            table = _like(table, _read_schema(before), before)
        else:
            others = (self.path(other, 0) for other in self.methods() if other != method)
            for other in filter(Path.exists, others):
                _check_types(table.schema, _read_schema(other), other)
        facts = {_SCHEMA_KEY: str(SCHEMA), _AFTER_KEY: "" if after is None else str(after)}
        sink = pa.BufferOutputStream()
        pq.write_table(
            table.replace_schema_metadata(facts),
            sink,
            compression="zstd",
            write_page_checksum=True,
        )
        write_file(self.path(method, chunk), sink.getvalue().to_pybytes())

    def drop_after(self, method: str, chunk: int | None) -> None:
        """Remove the parts after a chunk, or all; the newest go first, so that no gap is seen."""
        for number, path in reversed(self.of(method).items()):
            if chunk is None or number > chunk:
                with explained("remove", path):
                    path.unlink()

    def newest_checkpoint(self, method: str) -> int | None:
        """Return the checkpoint that was the newest when the newest part was written, or None."""
        files = self.of(method)
        if not files:
            return None
        after = (_read_schema(files[max(files)]).metadata or {}).get(_AFTER_KEY)
        return int(after) if after else None

    def sweep(self) -> None:
        """Remove the drafts that a killed process left."""
        for method in self.methods():
            sweep(self.folder / method)


def read_part(path: Path) -> pa.Table:
    """Return the rows of a part, with the present names of its columns.

    Raises:
      StoreError: if the file is damaged.
      FileNotFoundError: if there is no such file.
    """
    table = _parquet(path, lambda file: file.read())
    return table.rename_columns([earlier.current(name) for name in table.column_names])


def _is_whole(path: Path) -> bool:
    """Return whether a file exists and ends like Parquet."""
    try:
        with reading(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - len(_MAGIC)))
            return file.read() == _MAGIC
    except OSError:
        return False


def _read_schema(path: Path) -> pa.Schema:
    return _parquet(path, lambda file: file.schema_arrow)


def _parquet(path: Path, get: Any) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # PyArrow would take a name such as `run:1` for an address, so it is given an open file.
        with (
            reading(path) as opened,
            pq.ParquetFile(opened, page_checksum_verification=True) as file,
        ):
            return get(file)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise StoreError(
            f"{path} cannot be read ({error}). Restore it from a copy, or run the study again in "
            "another folder."
        ) from error


def _table(method: str, columns: Mapping[str, Any]) -> pa.Table:
    import pyarrow as pa

    missing = [name for name in INDEX if name not in columns]
    if missing:
        raise ValueError(f"A part needs the columns {list(INDEX)}; {missing} are missing.")
    for name in ("method", "study"):
        if name in columns:
            raise ValueError(f"The column {name!r} is filled in by itself: leave it out.")
    arrays = {name: _array(name, column) for name, column in columns.items()}
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"All columns of a part must have the same length, got {lengths}.")
    for name in INDEX:
        if not pa.types.is_integer(arrays[name].type):
            raise TypeError(f"Column {name!r} must hold whole numbers, got {arrays[name].type}.")
    methods = pa.array([method] * lengths["seed"], pa.string())
    return pa.table({"method": methods} | {name: arrays[name] for name in in_order(arrays)})


def in_order(names: Any) -> list[str]:
    """Return the names of columns, without `method`, as index, hyper-parameters and metrics.

    Within these groups the order stays.
    """
    names = [name for name in names if name not in (*INDEX, "method")]
    hyper = [name for name in names if name.startswith(HYPER)]
    return [*INDEX, *hyper, *(name for name in names if not name.startswith(HYPER))]


def _array(name: str, column: Any) -> pa.Array:
    import pyarrow as pa

    values = np.asarray(column)
    if values.ndim != 1:
        raise ValueError(f"Column {name!r} must be [rows], got shape {list(values.shape)}.")
    if values.dtype.name in ("float16", "bfloat16"):  # not every reader knows them; this is exact
        values = values.astype(np.float32)
    if values.dtype.kind in "OU" and all(isinstance(value, str) for value in values):
        return pa.array(values.tolist(), pa.string())
    if values.dtype.kind not in "biuf":
        raise TypeError(f"Column {name!r} must hold numbers or strings, got {values.dtype}.")
    return pa.array(values)


def _like(table: pa.Table, schema: pa.Schema, path: Path) -> pa.Table:
    """Return the table with the columns of an earlier part, in its order and by its names.

    Columns that the earlier part does not have are left out, so that a study from before they were
    measured can go on.
    """
    own = {earlier.current(name): name for name in schema.names}
    table = table.rename_columns([own.get(name, name) for name in table.column_names])
    missing = sorted(set(schema.names) - set(table.column_names))
    if missing:
        raise ValueError(
            f"All parts of a method have the same columns; against {path}, {missing} are missing."
        )
    table = table.select(schema.names)
    _check_types(table.schema, schema, path)
    return table


def _check_types(new: pa.Schema, old: pa.Schema, path: Path) -> None:
    for field in new:
        if field.name in old.names and old.field(field.name).type != field.type:
            raise TypeError(
                f"Column {field.name!r} is {field.type}, but {old.field(field.name).type} in "
                f"{path}; a column has one type in the whole study."
            )
