"""Folders of studies, put together by experiment."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from continual_learning.analysis.loading import load_part
from continual_learning.diagnostics import metrics
from continual_learning.jobs import tree
from continual_learning.schema.errors import StudyError
from continual_learning.schema.fields import Factor
from continual_learning.studies import nonfinite, spec
from continual_learning.studies.contents import Part
from continual_learning.studies.contents import parts as parts_of
from continual_learning.studies.experiment import FACTORS, Experiment
from continual_learning.studies.store import manifest
from continual_learning.studies.store.parts import HYPER, Parts
from continual_learning.sweeps import contents

if TYPE_CHECKING:
    from continual_learning.agents.catalog import Agent
    from continual_learning.envs.catalog import Stream

BUDGETLESS = ("title", "methods", "seeds", "scales", "data_folder")
"""Fields in which two studies of one experiment may differ."""

LOGGED = 300
"""Characters of the last line of a log that are shown."""


class Folder(NamedTuple):
    """One study on the disk.

    Attributes:
      path: as given.
      kept: the lanes that are shown, if not all.
      study: of study.toml, of these lanes.
      files: {file name: its text}, to be shown.
      written: when its newest rows were written, and the last line of its log.
    """

    path: Path
    kept: list[int] | None
    study: dict[str, Any]
    files: dict[str, str]
    written: str

    @property
    def experiment(self) -> dict[str, Any]:
        """The experiment as a flat table; of a study that has only a name, that name."""
        table = self.study.get("experiment", {})
        if not isinstance(table, dict):
            return {"name": str(table)}
        if self.known is None:
            return table
        fields = {name: self.known.value(name) for name in self.known.fields()}
        kinds = {part: getattr(self.known, part).kind for part in FACTORS}
        return {n: v for n, v in fields.items() if v is not None} | kinds | {"methods": self.specs}

    @property
    def parts(self) -> Mapping[str, Factor]:
        """The parts of the experiment that this version can read."""
        table = self.study.get("experiment")
        try:
            return spec.parts(table) if isinstance(table, Mapping) else {}
        except StudyError:  # of a kind that is not known
            return {}

    @property
    def known(self) -> Experiment | None:
        """The experiment; None where it is of another version, or has parts of its own."""
        try:
            return spec.from_dict(self.study["experiment"])
        except (KeyError, StudyError, TypeError):
            return None

    @property
    def specs(self) -> Mapping[str, Any]:
        """{method: its table} of the experiment."""
        experiment = self.study.get("experiment")
        table = experiment.get("methods") if isinstance(experiment, Mapping) else None
        return table if isinstance(table, Mapping) else {}

    @property
    def methods(self) -> list[str]:
        """Methods that were to be run."""
        return [str(each) for each in _list(self.study.get("methods"))]

    @property
    def seeds(self) -> list[int]:
        """Seeds that were to be run."""
        return [each for each in _list(self.study.get("seeds")) if isinstance(each, int)]

    @property
    def lanes(self) -> set[str]:
        """What tells its runs apart: seeds, and the numbers in which lanes of a seed differ."""
        hyper = self.study.get("hyper")
        table = hyper if isinstance(hyper, Mapping) else {}
        numbers = zip(*(_list(each) for each in table.values()), strict=False)
        named = [str(dict(zip(table, each, strict=True))) for each in numbers]
        each = zip(self.seeds, named or [""] * len(self.seeds), strict=False)
        return {f"{seed} {numbers}" for seed, numbers in each}


class Section(NamedTuple):
    """All studies of one experiment.

    Attributes:
      name, title: of the experiment.
      stream, agent: of the experiment; None where this version cannot read them.
      folders: its studies.
      frame: their rows; methods that are not the same in two folders carry the folder's name.
      planned: {method: the seeds it was to run}, in the order of the studies.
      tasks: how many there are to be, if that is known.
      steps_per_task: likewise.
      notices: what a reader must know, in sentences.
    """

    name: str
    title: str
    stream: Stream | None
    agent: Agent | None
    folders: list[Folder]
    frame: pd.DataFrame
    planned: dict[str, list[int]]
    tasks: int | None
    steps_per_task: int | None
    notices: list[str]

    @property
    def end(self) -> int | None:
        """Step at which a run is finished, if that is known."""
        if self.tasks is None or self.steps_per_task is None:
            return None
        return self.tasks * self.steps_per_task

    @property
    def names(self) -> list[str]:
        """Of the tasks in turn; [] where they have no names."""
        return [] if self.stream is None else self.stream.task_names(self.tasks or 0)

    @property
    def main(self) -> str | None:
        """The column that says how well a method does, if that is known."""
        if self.stream is None or self.agent is None:
            return None
        return self.agent.headline(self.stream)


def read(paths: Sequence[str | Path]) -> list[Section]:
    """The studies in these folders, by experiment, in the order in which they are given."""
    if not paths:
        raise StudyError("Name at least one folder of a study.")
    given = list(map(Path, paths))
    parts = [each for path in given for each in parts_of(path)]
    if not parts:
        raise StudyError(f"No job of {given[0]} has begun: there is nothing to show yet.")
    places = [each.path.resolve() for each in parts]
    twice = [str(each.path) for i, each in enumerate(parts) if places[i] in places[:i]]
    if twice:
        raise StudyError(f"A folder is given twice: {twice[0]}.")
    together: dict[str, list[Folder]] = {}
    for folder in map(_folder, parts):
        together.setdefault(_identity(folder.experiment), []).append(folder)
    sections = _told_apart([_section(folders) for folders in together.values()])
    for path in given:
        for jobs in contents.jobs(path):
            sections[0].notices.extend(_missing_jobs(jobs))
        for place, count in contents.dropped(path).items():
            sections[0].notices.append(f"{place}: {count} runs ended there by halving.")
    return sections


def _told_apart(sections: list[Section], most: int = 6) -> list[Section]:
    """Where sections have the same title, with the fields in which they differ."""
    found = []
    for section in sections:
        alike = [s.folders[0].experiment for s in sections if s.title == section.title]
        own = section.folders[0].experiment
        fields = [name for name in own if any(each.get(name) != own[name] for each in alike)]
        said = [f"{name} = {own[name]}" for name in fields if name not in BUDGETLESS]
        said = said if len(said) <= most else [*said[:most], "…"]
        title = f"{section.title} ({', '.join(said)})" if said else section.title
        found.append(section._replace(title=title))
    return found


def _missing_jobs(jobs: tree.Tree) -> list[str]:
    """What a reader does not see of a tree, in sentences."""
    folders = {name: jobs.folder(name) for name in jobs.jobs}
    absent = [name for name, at in folders.items() if not (at / manifest.STUDY).is_file()]
    failed = [name for name in jobs.jobs if jobs.failure(name).exists()]
    return [
        f"{jobs.path}: {len(names)} of {len(jobs.jobs)} jobs {what}: {', '.join(names[:10])}"
        f"{', …' if len(names) > 10 else ''}."
        for names, what in ((absent, "have not begun"), (failed, "failed"))
        if names
    ]


def _folder(part: Part) -> Folder:
    path = part.path
    study, _ = manifest.read(path)
    if part.lanes is not None:
        hyper = {name: [x[i] for i in part.lanes] for name, x in study.get("hyper", {}).items()}
        study = {**study, "seeds": [study["seeds"][i] for i in part.lanes], "hyper": hyper}
    names = (manifest.STUDY, manifest.ENVIRONMENT)
    files = {name: (path / name).read_text("utf-8", errors="replace") for name in names}
    return Folder(path, part.lanes, study, files, _written(path))


def _written(path: Path) -> str:
    """When the newest rows came, and how the log ends."""
    parts = Parts(path / "metrics")
    times = [file.stat().st_mtime for m in parts.methods() for file in parts.of(m).values()]
    said = []
    if times:
        moment = datetime.datetime.fromtimestamp(max(times), datetime.UTC)
        said.append(f"newest rows of {moment:%Y-%m-%d %H:%M:%S} UTC")
    log = path / "log.txt"
    if log.is_file():
        lines = log.read_text("utf-8", errors="replace").splitlines()
        if lines:
            said.append(f"the log ends with “{shorten(lines[-1], LOGGED, placeholder=' …')}”")
    return "; ".join(said)


def _identity(experiment: Mapping[str, Any]) -> str:
    same = {name: value for name, value in experiment.items() if name not in BUDGETLESS}
    return repr(sorted(same.items()))


def _section(folders: list[Folder]) -> Section:
    first = folders[0].experiment
    frames, notices = [], []
    labels = _labels(folders)
    planned: dict[str, list[int]] = {}
    for folder, names in zip(folders, labels, strict=True):
        for method in folder.methods:
            planned.setdefault(names.get(method, method), []).extend(folder.seeds)
        rows = Parts(folder.path / "metrics")
        if not any(rows.of(method) for method in rows.methods()):
            notices.append(
                f"{folder.path} has no rows yet: they come when the first chunk is done."
            )
            continue
        frame = load_part(Part(folder.path, folder.kept))
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
    tasks, steps = _budget(first, folders[0].known)
    parts: Any = folders[0].parts
    if steps is not None and not frame.empty and frame.step.max() > (tasks or 0) * steps:
        notices.append(
            "Some rows are of later steps than the experiment has; where runs end is not known."
        )
        steps = None
    name = _text(first.get("name"), "study")
    return Section(
        name=name,
        title=_text(first.get("title"), name),
        stream=parts.get("stream"),
        agent=parts.get("agent"),
        folders=folders,
        frame=frame,
        planned=planned,
        tasks=tasks,
        steps_per_task=steps,
        notices=notices,
    )


def _nonfinite(frame: pd.DataFrame) -> list[str]:
    """Where methods are first not finite, in sentences."""
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
    """The table with NaN for values that are infinite, which is told."""
    changed = {}
    for name in numeric(frame):
        infinite = np.isinf(frame[name].to_numpy(np.float64, na_value=np.nan))
        if infinite.any():
            notices.append(
                f"{int(infinite.sum()):,} values of {name} are infinite; they are shown as missing."
            )
            changed[name] = frame[name].where(~infinite)
    return frame.assign(**changed)


def _labels(folders: list[Folder]) -> list[dict[str, str]]:
    """Per folder, {method: its name on the page}.

    A method keeps its name where all folders run it alike and with different lanes; else two
    folders would be averaged that have nothing to do with one another.
    """
    by_method: dict[str, list[Folder]] = {}
    for folder in folders:
        for method in folder.methods:
            by_method.setdefault(method, []).append(folder)
    apart = set()
    for method, having in by_method.items():
        lanes = [lane for folder in having for lane in folder.lanes]
        specs = [folder.specs.get(method) for folder in having]
        if len(set(lanes)) < len(lanes) or any(each != specs[0] for each in specs):
            apart.add(method)
    return [{m: f"{m} in {f.path}" for m in f.methods if m in apart} for f in folders]


def _budget(
    experiment: Mapping[str, Any], known: Experiment | None
) -> tuple[int | None, int | None]:
    """How many tasks there are, and how many steps each has; None if the spec does not say."""
    if known is not None:
        return known.tasks, known.steps_per_task
    tasks = experiment.get("tasks")
    return (tasks if isinstance(tasks, int) else None), None


def numeric(frame: pd.DataFrame) -> list[str]:
    """The columns that are metrics or task parameters and hold numbers."""
    return [name for name in _measured(frame) if pd.api.types.is_numeric_dtype(frame[name])]


def _measured(frame: pd.DataFrame) -> list[str]:
    index = ("method", "seed", "step", "task")
    return [str(n) for n in frame if n not in index and not str(n).startswith(HYPER)]


def parameters(frame: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Which columns are parameters of the task: the same in all its rows, whatever the method."""
    names = [name for name in names if not metrics.known(name)]
    if frame.empty or not names:
        return []
    tasks = frame.groupby(["seed", "task"], sort=False)
    if len(frame) < 2 * tasks.ngroups:  # a row a task: nothing could differ
        return []
    constant: Any = (tasks[names].nunique(dropna=False) == 1).all()
    return [name for name in names if constant[name]]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any, otherwise: str) -> str:
    return value if isinstance(value, str) and value.strip() else otherwise
