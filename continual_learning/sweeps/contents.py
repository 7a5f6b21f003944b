"""The contents of a sweep's folder: its jobs, stage by stage, and every run once."""

from __future__ import annotations

from pathlib import Path

from continual_learning.jobs import tree as trees
from continual_learning.studies.contents import Part
from continual_learning.studies.folder import open_study
from continual_learning.sweeps.lanes import configurations, point
from continual_learning.sweeps.sweep import is_sweep, read


def stages(folder: Path) -> list[list[Path]]:
    """Return the folders of the rungs that have begun, by batch of a sampler or for the sweep."""
    places = sorted(folder.glob("batches/*")) or [folder]
    rungs = [sorted(place.glob("rungs/*")) or [place] for place in places]
    return [[each for each in stage if trees.is_tree(each)] for stage in rungs]


def jobs(folder: Path) -> list[trees.Tree]:
    """Return the jobs of a folder: its own or, for a sweep, those of all stages."""
    if is_sweep(folder):
        return [trees.read(place) for stage in stages(folder) for place in stage]
    return [trees.read(folder)] if trees.is_tree(folder) else []


def parts(folder: Path) -> list[Part]:
    """Return the studies of a sweep that have begun.

    A run that continued in a later rung is only part of that one, with all its rows.
    """
    names, found = list(read(folder).grid.values), []
    for stage in stages(folder):
        last: list[Part] = []
        gone_on: set[object] = set()
        for place in reversed(stage):
            runs = {path: _runs(path, names) for path in trees.studies(place)}
            here = [Part(path, _without(each, gone_on)) for path, each in runs.items()]
            last = [part for part in here if part.lanes != []] + last
            gone_on.update(*runs.values())
        found += last
    return found


def dropped(folder: Path) -> dict[Path, int]:
    """Return {rung: number of runs that do not continue in the next rung}, without last rungs."""
    stopped = (
        [place for stage in stages(folder) for place in stage[:-1]] if is_sweep(folder) else []
    )
    counts = dict.fromkeys(stopped, 0)
    for part in parts(folder) if stopped else []:
        place = part.path.parents[1]
        if place in counts:
            counts[place] += len(open_study(*part).seeds)
    return counts


def _runs(path: Path, names: list[str]) -> list[object]:
    """Return the configuration and the seed of every lane, which identify a run."""
    study = open_study(path).study
    points = map(point, configurations(study, names))
    return list(zip(points, study.seeds, strict=True))


def _without(runs: list[object], others: set[object]) -> list[int] | None:
    lanes = [lane for lane, each in enumerate(runs) if each not in others]
    return None if len(lanes) == len(runs) else lanes
