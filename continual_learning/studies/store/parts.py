"""Metrics as Parquet parts, one per method and chunk: `metrics/METHOD/part-000012.parquet`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from continual_learning.studies.store.files import StoreError, explained, reading, sweep, write_file
from continual_learning.studies.store.manifest import SCHEMA

if TYPE_CHECKING:
    import pyarrow as pa

INDEX = ("seed", "step", "task")  # whole numbers, in every part
HYPER = "hyper_"  # begins the name of a column with a hyper-parameter

_MAGIC = b"PAR1"
_SCHEMA_KEY = b"continual_learning.schema"
_AFTER_KEY = b"continual_learning.after_checkpoint"


class Parts:
    """The parts of all methods.

    Args:
      folder: `metrics` in the folder of a study.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    def methods(self) -> list[str]:
        """Names of the methods that have a folder."""
        return sorted(f.name for f in self.folder.glob("[!.]*") if f.is_dir())

    def of(self, method: str) -> dict[int, Path]:
        """{chunk: file} of the complete parts, in order."""
        files = self.folder.joinpath(method).glob("part-*.parquet")
        found = {int(m[1]): f for f in files if (m := re.fullmatch(r"part-(\d+)", f.stem))}
        return dict(sorted(found.items()))

    def whole(self, method: str, chunks: int) -> int:
        """How many of the first `chunks` parts are there before one is missing or cut off.

        Only the ends of files are looked at; `readable` reads all of them.
        """
        paths = (self.path(method, chunk) for chunk in range(chunks))
        return next((chunk for chunk, path in enumerate(paths) if not _is_whole(path)), chunks)

    def readable(self, method: str, chunks: int) -> tuple[int, str]:
        """How many of the first `chunks` parts can be read before one cannot, and why that is."""
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
        """The file of a part."""
        return self.folder / method / f"part-{chunk:06d}.parquet"

    def write(self, method: str, chunk: int, columns: Mapping[str, Any], after: int | None) -> None:
        """Writes or replaces a part.

        Args:
          method: name of the method.
          chunk: its number; the part before it must be there.
          columns: {name: [rows]}, with `seed`, `step` and `task`.
          after: the newest checkpoint at this moment.
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
        """Removes the parts of later chunks, or all; the newest first, so that no gap is seen."""
        for number, path in reversed(self.of(method).items()):
            if chunk is None or number > chunk:
                with explained("remove", path):
                    path.unlink()

    def newest_checkpoint(self, method: str) -> int | None:
        """The newest checkpoint there was when the newest part was written."""
        files = self.of(method)
        if not files:
            return None
        after = (_read_schema(files[max(files)]).metadata or {}).get(_AFTER_KEY)
        return int(after) if after else None

    def sweep(self) -> None:
        """Removes what a killed process left behind."""
        for method in self.methods():
            sweep(self.folder / method)


def read_part(path: Path) -> pa.Table:
    """The rows of a part; raises a StoreError if it is damaged, a FileNotFoundError if gone."""
    return _parquet(path, lambda file: file.read())


def _is_whole(path: Path) -> bool:
    """Whether a file is there and ends like Parquet."""
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
        # A name may look like the address of another place: `run:1` is none of PyArrow's here.
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
    """Column names in their order: index, hyper-parameters, metrics; `method` is not one of them.

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
    if values.dtype.name in ("float16", "bfloat16"):  # not known to every reader; this is exact
        values = values.astype(np.float32)
    if values.dtype.kind in "OU" and all(isinstance(value, str) for value in values):
        return pa.array(values.tolist(), pa.string())
    if values.dtype.kind not in "biuf":
        raise TypeError(f"Column {name!r} must hold numbers or strings, got {values.dtype}.")
    return pa.array(values)


def _like(table: pa.Table, schema: pa.Schema, path: Path) -> pa.Table:
    """Return the table with the columns of an earlier part, in its order.

    Columns that the earlier part does not have are left out: a study that was begun before they
    were measured goes on with its own.
    """
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
