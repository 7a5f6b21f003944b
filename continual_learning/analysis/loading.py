"""The metrics of studies as one table."""

from __future__ import annotations

import functools
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from continual_learning import extras, plugins
from continual_learning.analysis import style
from continual_learning.schema.errors import StudyError
from continual_learning.studies import spec
from continual_learning.studies.contents import Part, parts, several
from continual_learning.studies.store import manifest
from continual_learning.studies.store.files import StoreError
from continual_learning.studies.store.parts import HYPER, Parts, in_order, read_part

extras.require("studies", "pyarrow", "pandas")

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

STUDIES = "studies"
"""In the `attrs` of a table: what `load` knows of its studies."""


def load(folders: str | Path | Iterable[str | Path]) -> pd.DataFrame:
    """One tidy table of the metrics of one or more studies, running and killed ones too.

    Every complete part is shown, also those after the newest checkpoint, and none twice. Those
    are written anew when the study is resumed.

    Args:
      folders: the folder of a study, or several. One with jobs stands for the studies of those
        that have rows, and that of a sweep for all its runs, each as far as it came.

    Returns:
      Columns `method`, `seed`, `step`, `task`, hyper-parameters (`hyper_…`), metrics; sorted by
      method, hyper-parameters, seed, step, task. A column that a method lacks is NaN in its rows.
      With several folders, or jobs, the first column `study` is the folder of the study.
      `attrs["studies"]` has of each folder the `experiment` and the `last_step` of a run that is
      finished (None where the experiment is not known); pandas keeps it when rows are chosen, not
      when tables are put together.
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
        raise ValueError(f"A folder is given twice, so its rows would be too: {twice}.")
    return _frame({str(each.path): _study(each) for each in found}, single)


def load_part(part: Part) -> pd.DataFrame:
    """`load` of a single study, of some of its lanes."""
    return _frame({str(part.path): _study(part)}, single=True)


def _frame(tables: Mapping[str, pa.Table], single: bool) -> pd.DataFrame:
    import pyarrow as pa

    if single:
        [table] = tables.values()
    else:
        named = [
            table.add_column(0, "study", pa.array([path] * len(table), pa.string()))
            for path, table in tables.items()
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
    frame.attrs[STUDIES] = {path: _facts(Path(path)) for path in tables}
    return frame


def _with_rows(folder: Path) -> list[Part]:
    """The folder of a study as it is; of a tree or a sweep, the studies that have rows."""
    if not several(folder):
        return [Part(folder)]
    found = [each for each in parts(folder) if _files(Parts(each.path / "metrics"))]
    if not found:
        raise StoreError(f"{folder} has no metrics yet: they come with the first chunk of a job.")
    return found


def _study(part: Part) -> pa.Table:
    """All rows of a study, or those of some lanes, method by method."""
    import pyarrow as pa

    folder = part.path
    study, _ = manifest.read(folder)  # raises if this is no study, or one of a newer schema
    parts = Parts(folder / "metrics")
    try:
        tables = [read_part(path) for path in _files(parts)]
    except FileNotFoundError:  # the study was resumed in this very moment: look again
        tables = [read_part(path) for path in _files(parts)]
    if not tables:
        raise StoreError(
            f"{folder} has no metrics yet: the first part comes when the first chunk is done."
        )
    if part.lanes is not None:
        tables = [_of_lanes(table, len(study["seeds"]), part.lanes) for table in tables]
    return pa.concat_tables(tables, promote_options="permissive")


def _of_lanes(table: pa.Table, count: int, lanes: Sequence[int]) -> pa.Table:
    """The rows of these of `count` lanes; in a part, those of a lane are side by side."""
    each = len(table) // count
    return table.take([lane * each + row for lane in lanes for row in range(each)])


def _facts(folder: Path) -> dict[str, Any]:
    """What a study runs, and where its runs end."""
    study, _ = manifest.read(folder)
    style.note(study)
    for plugin in plugins.absent(study):
        _warn(plugin)
    experiment = study.get("experiment")
    try:
        known = spec.from_dict(experiment) if isinstance(experiment, dict) else None
    except (StudyError, TypeError):  # of another version
        known = None
    return {"experiment": experiment, "last_step": None if known is None else known.steps}


@functools.cache
def _warn(plugin: plugins.Plugin) -> None:
    """Say once that the code of a study is not here, of which its rows need nothing."""
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
