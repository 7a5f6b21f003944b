"""Folders of studies, grouped by experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from continual_learning.analysis.loading import load_study
from continual_learning.diagnostics import metrics
from continual_learning.jobs import tree
from continual_learning.schema.errors import StudyError
from continual_learning.studies import nonfinite
from continual_learning.studies.experiment import FACTORS, Experiment
from continual_learning.studies.folder import StudyFolder, open_studies
from continual_learning.studies.store import manifest
from continual_learning.studies.store.parts import HYPER
from continual_learning.sweeps import contents

if TYPE_CHECKING:
    from continual_learning.agents.catalog import Agent
    from continual_learning.envs.catalog import Stream

BUDGETLESS = ("title", "methods", "seeds", "scales", "data_folder")
"""Fields in which two studies of one experiment may differ."""


class Section(NamedTuple):
    """All studies of one experiment.

    Attributes:
      name, title: the name and the title of the experiment.
      stream, agent: its stream and its agent; None where this version cannot read them.
      folders: its studies.
      frame: their rows; methods that differ between two folders carry the folder's name.
      planned: {method: the seeds that it was to run}, in the order of the studies.
      tasks: the planned number of tasks, if that is known.
      steps_per_task: the planned number of steps of a task, if that is known.
      notices: sentences that a reader must know.
    """

    name: str
    title: str
    stream: Stream | None
    agent: Agent | None
    folders: list[StudyFolder]
    frame: pd.DataFrame
    planned: dict[str, list[int]]
    tasks: int | None
    steps_per_task: int | None
    notices: list[str]

    @property
    def end(self) -> int | None:
        """The step at which a run is finished, if that is known."""
        if self.tasks is None or self.steps_per_task is None:
            return None
        return self.tasks * self.steps_per_task

    @property
    def names(self) -> list[str]:
        """The names of the tasks in order; [] where they have no names."""
        return [] if self.stream is None else self.stream.task_names(self.tasks or 0)

    @property
    def main(self) -> str | None:
        """The column that measures how well a method performs, if that is known."""
        if self.stream is None or self.agent is None:
            return None
        return self.agent.headline(self.stream)


def read(paths: Sequence[str | Path]) -> list[Section]:
    """Return the studies in these folders by experiment, in the order in which they are given."""
    if not paths:
        raise StudyError("Name at least one folder of a study.")
    given = list(map(Path, paths))
    folders = [each for path in given for each in open_studies(path)]
    if not folders:
        raise StudyError(f"No job of {given[0]} has begun: there is nothing to show yet.")
    places = [each.path.resolve() for each in folders]
    twice = [str(each.path) for i, each in enumerate(folders) if places[i] in places[:i]]
    if twice:
        raise StudyError(f"A folder is given twice: {twice[0]}.")
    together: dict[str, list[StudyFolder]] = {}
    for folder in folders:
        together.setdefault(_identity(fields_of(folder)), []).append(folder)
    sections = _told_apart([_section(folders) for folders in together.values()])
    for path in given:
        for jobs in contents.jobs(path):
            sections[0].notices.extend(_missing_jobs(jobs))
        for place, count in contents.dropped(path).items():
            sections[0].notices.append(f"{place}: {count} runs ended there by halving.")
    return sections


def _told_apart(sections: list[Section], most: int = 6) -> list[Section]:
    """Return sections whose titles name the fields in which those of the same title differ."""
    found = []
    for section in sections:
        alike = [fields_of(s.folders[0]) for s in sections if s.title == section.title]
        own = fields_of(section.folders[0])
        fields = [name for name in own if any(each.get(name) != own[name] for each in alike)]
        said = [f"{name} = {own[name]}" for name in fields if name not in BUDGETLESS]
        said = said if len(said) <= most else [*said[:most], "…"]
        title = f"{section.title} ({', '.join(said)})" if said else section.title
        found.append(section._replace(title=title))
    return found


def _missing_jobs(jobs: tree.Tree) -> list[str]:
    """Return sentences about jobs that failed or have not begun, which the page does not show."""
    folders = {name: jobs.folder(name) for name in jobs.jobs}
    absent = [name for name, at in folders.items() if not manifest.is_study(at)]
    failed = [name for name in jobs.jobs if jobs.failure(name).exists()]
    return [
        f"{jobs.path}: {len(names)} of {len(jobs.jobs)} jobs {what}: {', '.join(names[:10])}"
        f"{', …' if len(names) > 10 else ''}."
        for names, what in ((absent, "have not begun"), (failed, "failed"))
        if names
    ]


def fields_of(folder: StudyFolder) -> Mapping[str, Any]:
    """Return the experiment as a flat table, which may hold only its name."""
    table, known = folder.table.get("experiment", {}), folder.experiment
    if not isinstance(table, dict):
        return {"name": str(table)}
    if known is None:
        return table
    fields = {name: known.value(name) for name in known.fields()}
    kinds = {part: getattr(known, part).kind for part in FACTORS}
    return {n: v for n, v in fields.items() if v is not None} | kinds | {"methods": folder.specs}


def _identity(experiment: Mapping[str, Any]) -> str:
    same = {name: value for name, value in experiment.items() if name not in BUDGETLESS}
    return repr(sorted(same.items()))


def _section(folders: list[StudyFolder]) -> Section:
    first = fields_of(folders[0])
    frames, notices = [], []
    labels = _labels(folders)
    planned: dict[str, list[int]] = {}
    for folder, names in zip(folders, labels, strict=True):
        for method in folder.methods:
            planned.setdefault(names.get(method, method), []).extend(folder.seeds)
        if not folder.row_files:
            notices.append(
                f"{folder.path} has no rows yet: they are written when the first chunk is done."
            )
            continue
        frame = load_study(folder)
        if not frame.empty:
            frame = frame.assign(method=frame.method.replace(names))
            notices.extend(_nonfinite(frame))
            frames.append(frame)
    frame = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    frame.attrs = {}
    frame = _finite(frame, notices)
    others = [name for name in _measured(frame) if name not in numeric(frame)]
    if others:
        notices.append(f"Not drawn, since they hold no numbers: {', '.join(others)}.")
    tasks, steps = _budget(first, folders[0].experiment)
    factors: Any = folders[0].factors
    if steps is not None and not frame.empty and frame.step.max() > (tasks or 0) * steps:
        notices.append(
            "Some rows have later steps than the experiment; the end of runs is not known."
        )
        steps = None
    name = _text(first.get("name"), "study")
    return Section(
        name=name,
        title=_text(first.get("title"), name),
        stream=factors.get("stream"),
        agent=factors.get("agent"),
        folders=folders,
        frame=frame,
        planned=planned,
        tasks=tasks,
        steps_per_task=steps,
        notices=notices,
    )


def _nonfinite(frame: pd.DataFrame) -> list[str]:
    """Return sentences that say where values of methods are first not finite."""
    names = [*numeric(frame), "seed", "step"]
    hyper = [str(name) for name in frame if str(name).startswith(HYPER)]
    found = []
    for method, rows in frame.groupby("method", sort=False):
        lanes = rows.groupby([*hyper, "seed"], dropna=False).ngroup().to_numpy()
        columns = {name: rows[name].to_numpy() for name in names}
        if problem := nonfinite.first(columns, lanes):
            found.append(problem.told(str(method)))
    return found


def _finite(frame: pd.DataFrame, notices: list[str]) -> pd.DataFrame:
    """Return the table with NaN for infinite values, and add notices of them."""
    changed = {}
    for name in numeric(frame):
        infinite = np.isinf(frame[name].to_numpy(np.float64, na_value=np.nan))
        if infinite.any():
            notices.append(
                f"{int(infinite.sum()):,} values of {name} are infinite; they are shown as missing."
            )
            changed[name] = frame[name].where(~infinite)
    return frame.assign(**changed)


def _labels(folders: list[StudyFolder]) -> list[dict[str, str]]:
    """Return {method: its name on the page} for every folder.

    A method keeps its name where all folders run it with the same settings and different lanes.
    Otherwise the page would average unrelated runs.
    """
    by_method: dict[str, list[StudyFolder]] = {}
    for folder in folders:
        for method in folder.methods:
            by_method.setdefault(method, []).append(folder)
    apart = set()
    for method, having in by_method.items():
        runs = [run for folder in having for run in folder.runs]
        specs = [folder.specs.get(method) for folder in having]
        if len(set(runs)) < len(runs) or any(each != specs[0] for each in specs):
            apart.add(method)
    return [{m: f"{m} in {f.path}" for m in f.methods if m in apart} for f in folders]


def _budget(
    experiment: Mapping[str, Any], known: Experiment | None
) -> tuple[int | None, int | None]:
    """Return the number of tasks, and of steps of a task; None where they are not known."""
    if known is not None:
        return known.tasks, known.steps_per_task
    tasks = experiment.get("tasks")
    return (tasks if isinstance(tasks, int) else None), None


def numeric(frame: pd.DataFrame) -> list[str]:
    """Return the columns that are metrics or task parameters and hold numbers."""
    return [name for name in _measured(frame) if pd.api.types.is_numeric_dtype(frame[name])]


def _measured(frame: pd.DataFrame) -> list[str]:
    index = ("method", "seed", "step", "task")
    return [str(n) for n in frame if n not in index and not str(n).startswith(HYPER)]


def parameters(frame: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Return the columns of task parameters, which are the same in all rows of a task."""
    names = [name for name in names if not metrics.known(name)]
    if frame.empty or not names:
        return []
    tasks = frame.groupby(["seed", "task"], sort=False)
    if len(frame) < 2 * tasks.ngroups:  # With a row per task, nothing could differ.
        return []
    constant: Any = (tasks[names].nunique(dropna=False) == 1).all()
    return [name for name in names if constant[name]]


def _text(value: Any, otherwise: str) -> str:
    return value if isinstance(value, str) and value.strip() else otherwise
