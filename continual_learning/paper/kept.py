"""Curves in bins in the folders of `results/`, which replace folders of studies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from continual_learning.analysis.loading import STUDIES
from continual_learning.paper.folders import Folder
from continual_learning.studies import registry, spec
from continual_learning.studies.store import manifest

FILE = "curves.csv"
_COLUMNS = {"method", "seed", "task"}
_SEEN = "eval_seen"


def is_kept(path: str | Path) -> bool:
    """Return whether a folder named after an experiment holds the curves of its runs, in bins."""
    path = Path(path).resolve()
    if path.name not in registry.names() or manifest.is_study(path):
        return False
    file = path / FILE
    return file.is_file() and {*pd.read_csv(file, nrows=0).columns} >= _COLUMNS


def folder(path: str | Path) -> Folder:
    """Return the description of the folder: its experiment, with as many tasks as it has."""
    rows = _rows(Path(path))
    experiment = registry.get(Path(path).resolve().name)
    methods = tuple(name for name in experiment.methods if name in {*rows.method})
    seeds = tuple(int(seed) for seed in rows.seed.unique())
    experiment = experiment.override(tasks=int(rows.task.max()) + 1, seeds=len(seeds))
    return Folder(Path(path), experiment, methods, seeds, (Path(path),))


def frame(kept: Folder) -> pd.DataFrame:
    """Return its rows in the form of `load`, where the step is the end of a bin."""
    rows: Any = _rows(kept.path).rename(columns={"until": "step"})
    evaluated = rows.filter(like="eval_")
    if _SEEN not in rows and len(evaluated.columns):
        rows[_SEEN] = evaluated.mean(axis=1)  # the mean over the tasks so far
    facts = {"experiment": spec.to_dict(kept.spec), "last_step": kept.spec.steps}
    rows.attrs[STUDIES] = {str(kept.path): facts}
    return rows


def _rows(path: Path) -> Any:
    return pd.read_csv(path / FILE)
