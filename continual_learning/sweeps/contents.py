"""What is in the folder of a sweep: jobs, stage by stage, and each run once."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from continual_learning.jobs import tree as trees
from continual_learning.studies.base import trusted
from continual_learning.studies.store import manifest
from continual_learning.studies.study import Study
from continual_learning.sweeps.lanes import configurations, point
from continual_learning.sweeps.sweep import is_sweep, read


class Part(NamedTuple):
    """A study in a folder.

    Attributes:
      path: its own folder.
      lanes: those whose runs go on in no later rung; None for all.
    """

    path: Path
    lanes: list[int] | None = None


def stages(folder: Path) -> list[list[Path]]:
    """Folders of jobs: for each batch of a sampler, or the sweep, those of its rungs that began."""
    places = sorted(folder.glob("batches/*")) or [folder]
    rungs = [sorted(place.glob("rungs/*")) or [place] for place in places]
    return [[each for each in stage if trees.is_tree(each)] for stage in rungs]


def jobs(folder: Path) -> list[trees.Tree]:
    """The jobs of a folder: its own or, of a sweep, those of all stages."""
    if is_sweep(folder):
        return [trees.read(place) for stage in stages(folder) for place in stage]
    return [trees.read(folder)] if trees.is_tree(folder) else []


def parts(folder: Path) -> list[Part]:
    """The studies of a folder that have begun: itself, those of its jobs, or those of its sweep.

    A run of a sweep that went on in a later rung is there alone, with all its rows.
    """
    if not is_sweep(folder):
        return [Part(each) for each in trees.studies(folder)]
    with trusted():  # it is running, or has run
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
    """{rung: runs that do not go on in the next one}, of a sweep's rungs that have a next one."""
    stopped = (
        [place for stage in stages(folder) for place in stage[:-1]] if is_sweep(folder) else []
    )
    counts = dict.fromkeys(stopped, 0)
    for part in parts(folder) if stopped else []:
        place = part.path.parents[1]
        if place in counts:
            lanes = manifest.read(part.path)[0]["seeds"] if part.lanes is None else part.lanes
            counts[place] += len(lanes)
    return counts


def _runs(path: Path, names: list[str]) -> list[object]:
    """What tells the runs of a study apart, lane by lane."""
    with trusted():  # it is running, or has run
        study = Study.from_dict(manifest.read(path)[0])
    points = map(point, configurations(study, names))
    return list(zip(points, study.seeds, strict=True))


def _without(runs: list[object], others: set[object]) -> list[int] | None:
    lanes = [lane for lane, each in enumerate(runs) if each not in others]
    return None if len(lanes) == len(runs) else lanes
