"""The metrics of studies as one table."""

from __future__ import annotations

import functools
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from continual_learning import extras, plugins
from continual_learning.analysis import style
from continual_learning.studies.contents import several
from continual_learning.studies.folder import StudyFolder, open_studies
from continual_learning.studies.store.files import StoreError
from continual_learning.studies.store.parts import HYPER, Parts, in_order, read_part

extras.require("studies", "pyarrow", "pandas")

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

STUDIES = "studies"
"""The key in the `attrs` of a table of facts about its studies."""


def load(folders: str | Path | Iterable[str | Path]) -> pd.DataFrame:
    """Return one tidy table of the metrics of studies, also of running and killed ones.

    The table has every complete part once, also parts after the newest checkpoint, which are
    written again when the study is resumed.

    Args:
      folders: the folder of a study, or several folders. A folder with jobs stands for the studies
        of the jobs that have rows, and the folder of a sweep for all its runs.

    Returns:
      Columns `method`, `seed`, `step`, `task`, hyper-parameters (`hyper_…`), metrics; sorted by
      method, hyper-parameters, seed, step, task. A column that a method lacks is NaN in its rows.
      With several folders, or jobs, the first column `study` is the folder of the study.
      `attrs["studies"]` has the `experiment` of every folder and the `last_step` of a finished run
      (None where the experiment is not known). pandas keeps it when it selects rows, but not when
      it concatenates tables.
    """
    one = isinstance(folders, str | Path)
    single = one and not several(Path(folders))
    given = [folders] if one else list(folders)
    if not given:
        raise ValueError("load needs at least one folder of a study.")
    found = [each for path in given for each in _with_rows(Path(path))]
    paths = [each.path for each in found]
    seen = [path.resolve() for path in paths]
    twice = sorted(
        {str(path) for path, real in zip(paths, seen, strict=True) if seen.count(real) > 1}
    )
    if twice:
        raise ValueError(f"A folder is given twice, so its rows would appear twice: {twice}.")
    return _frame(found, single)


def load_study(folder: StudyFolder) -> pd.DataFrame:
    """Return the table of a single study, with the lanes that are kept."""
    return _frame([folder], single=True)


def _frame(folders: Sequence[StudyFolder], single: bool) -> pd.DataFrame:
    import pyarrow as pa

    tables = list(map(_rows, folders))
    if single:
        [table] = tables
    else:
        named = [
            table.add_column(0, "study", pa.array([str(folder.path)] * len(table), pa.string()))
            for folder, table in zip(folders, tables, strict=True)
        ]
        try:
            table = pa.concat_tables(named, promote_options="permissive")
        except pa.ArrowException as error:
            raise StoreError(
                f"The studies cannot be put into one table ({error}): load them one by one."
            ) from error
    first = ["method"] if single else ["study", "method"]
    columns = [name for name in table.column_names if name != "study"]
    frame = table.select([*first, *in_order(columns)]).to_pandas()
    hyper = [name for name in columns if name.startswith(HYPER)]
    frame = frame.sort_values([*first, *hyper, "seed", "step", "task"], ignore_index=True)
    frame.attrs[STUDIES] = {str(folder.path): _facts(folder) for folder in folders}
    return frame


def _with_rows(folder: Path) -> list[StudyFolder]:
    """Return the study of a folder, or the studies with rows of a tree or a sweep."""
    found = open_studies(folder)
    if not several(folder):
        return found
    found = [each for each in found if _files(each.rows)]
    if not found:
        raise StoreError(f"{folder} has no metrics yet: they come with the first chunk of a job.")
    return found


def _rows(folder: StudyFolder) -> pa.Table:
    """Return all rows of a study, or those of the lanes that are kept, method by method."""
    import pyarrow as pa

    try:
        tables = [read_part(path) for path in _files(folder.rows)]
    except FileNotFoundError:  # The study was resumed at this moment: read it again.
        tables = [read_part(path) for path in _files(folder.rows)]
    if not tables:
        raise StoreError(
            f"{folder.path} has no metrics yet: the first part comes when the first chunk is done."
        )
    if folder.kept is not None:
        lanes = len(folder.stored["seeds"])
        tables = [_of_lanes(table, lanes, folder.kept) for table in tables]
    return pa.concat_tables(tables, promote_options="permissive")


def _of_lanes(table: pa.Table, count: int, lanes: Sequence[int]) -> pa.Table:
    """Return the rows of some of `count` lanes; the rows of a lane are contiguous in a part."""
    each = len(table) // count
    return table.take([lane * each + row for lane in lanes for row in range(each)])


def _facts(folder: StudyFolder) -> dict[str, Any]:
    """Return the experiment of a study, and the last step of its runs."""
    style.note(folder.stored)
    for plugin in plugins.absent(folder.stored):
        _warn(plugin)
    end = None if folder.experiment is None else folder.experiment.steps
    return {"experiment": folder.stored.get("experiment"), "last_step": end}


@functools.cache
def _warn(plugin: plugins.Plugin) -> None:
    """Warn that the plug-in of a study is not loaded, which its rows do not need."""
    print(
        f"Warning: the plug-in {plugin.file} is not loaded; names and colors of its methods are "
        f"those that the study recorded. To load it: --plugin {shlex.quote(plugin.file)}",
        file=sys.stderr,
    )


def _files(parts: Parts) -> list[Path]:
    files = []
    for method in parts.methods():
        found = parts.of(method)
        gaps = sorted(set(range(max(found, default=-1) + 1)) - found.keys())
        if gaps:
            missing = ", ".join(parts.path(method, chunk).name for chunk in gaps[:5])
            raise StoreError(
                f"{parts.folder / method} is not complete: {missing} missing. Copy the files "
                "there, or read those that are left with pandas.read_parquet."
            )
        files += found.values()
    return files
