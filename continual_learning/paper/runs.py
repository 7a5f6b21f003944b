"""The studies from which a table or a figure is made, read from their folders."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from continual_learning.analysis import curves as curves_of
from continual_learning.analysis.curves import RETURNS, Curves, main_metric
from continual_learning.analysis.loading import load
from continual_learning.jobs.tree import studies
from continual_learning.paper import kept
from continual_learning.paper.artifacts import Artifact, lane_value
from continual_learning.paper.folders import Folder, differences
from continual_learning.paper.values import value
from continual_learning.schema.errors import StudyError
from continual_learning.studies import registry
from continual_learning.studies.experiment import Experiment
from continual_learning.studies.store.parts import HYPER

if TYPE_CHECKING:
    import pandas as pd

# These change together with the rollout, so that a task keeps its number of steps.
_WITH_ROLLOUT = ("iterations_per_task", "iterations_per_chunk")
_SHAPES = ("linear", "exp", "softplus", "sigmoid")  # in the order of the paper's table


@dataclasses.dataclass(frozen=True)
class Runs:
    """Studies of one experiment with the same settings, as one table.

    Attributes:
      folders: their folders.
      frame: the table from `load`.
      chosen: the column of returns that is shown; None for the first of `returns`.
    """

    folders: tuple[Folder, ...]
    frame: pd.DataFrame
    chosen: str | None = None

    @property
    def spec(self) -> Experiment:
        """The experiment."""
        return self.folders[0].spec

    @functools.cached_property
    def width(self) -> int | None:
        """The steps of a bin; None for the rows as they are."""
        return self.spec.bin_width

    @property
    def metric(self) -> str:
        """The column that measures how well a method does; a return even before an episode ends."""
        headline = self.spec.headline
        if headline not in RETURNS:
            measured = headline in self.frame and self.frame[headline].notna().to_numpy().any()
            return headline if measured else main_metric(self.frame)
        return self.chosen or next(iter(self.returns), RETURNS[-1])

    @property
    def returns(self) -> tuple[str, ...]:
        """The columns of returns in the table: ours first, then the one that the paper shows."""
        return tuple(name for name in RETURNS if name in self.frame)

    def curves(self, metric: str) -> dict[str, Curves]:
        """Return a metric of every method in bins; a bin holds at least one evaluation."""
        width, spec = self.width, cast(Any, self.spec)
        if metric.startswith("eval_") and width is not None:
            width = max(width, spec.agent.eval_every * spec.agent.environments)
        return curves_of.curves(self.frame, metric, bin=width)

    def curve(self, metric: str) -> Curves:
        """Return a metric of the only method; raise a StudyError if there are several."""
        found = self.curves(metric)
        if len(found) != 1:
            raise StudyError(
                f"{self.folders[0].path} has {', '.join(found)}, but only one can be shown."
            )
        return next(iter(found.values()))


def read(artifact: Artifact, paths: Sequence[str | Path]) -> list[Folder]:
    """Return the folders; raise a StudyError if they are not those that the artifact needs.

    If it needs an ablation, studies of the experiment itself will do as well.
    """
    wanted = artifact.experiments
    valid = {*wanted, *map(registry.base_of, wanted)}
    folders = [each for path in paths for each in _folders(path)]
    if artifact.any_study:
        several = dict.fromkeys(folder.spec.name for folder in folders)
        if len(several) > 1:
            raise StudyError(
                f"{artifact.id} is of one experiment, and these are of {', '.join(several)}."
            )
        return folders
    for folder in folders:
        known = folder.spec.name in (*registry.names(), *registry.ablations())
        usual = registry.get(folder.spec.name) if known else None
        alike = usual is not None and usual.agent.kind == folder.spec.agent.kind
        if folder.spec.name not in valid or not alike:
            raise StudyError(
                f"{folder.path} is a study of {folder.spec.name}; {artifact.id} "
                + (f"needs {' and '.join(wanted)}." if wanted else "needs no study.")
            )
    here = {folder.spec.name for folder in folders}
    absent = [name for name in wanted if not {name, registry.base_of(name)} & here]
    if absent:
        raise StudyError(
            f"{artifact.id} needs a study of {' and one of '.join(absent)}: name its folder, or "
            f"let `continual reproduce {artifact.id} --out DIR` run it."
        )
    return folders


def by_experiment(artifact: Artifact, paths: Sequence[str | Path]) -> dict[str, Runs]:
    """Return {experiment: its studies} for the experiments that the artifact needs.

    An artifact that can be made from any study has the experiment of the first folder.
    """
    folders = read(artifact, paths)
    found = {}
    for name in artifact.experiments or [folder.spec.name for folder in folders[:1]]:
        chosen = [folder for folder in folders if folder.spec.name == name]
        found[name] = _runs(artifact, chosen)
    return found


def by_value(artifact: Artifact, paths: Sequence[str | Path]) -> dict[Any, Runs]:
    """Return {value: studies} for the field that an ablation varies, in order of the values.

    A value comes from a folder's experiment, or from its lanes if these differ in the field.
    Otherwise the folders must have the same settings.
    """
    field = artifact.varied or ""
    [method] = artifact.studies[0].methods
    folders, groups = read(artifact, paths), {}
    for folder in folders:
        if method not in folder.methods:
            raise StudyError(f"{folder.path} does not run {method}, which {artifact.id} shows.")
        _check_alike(folders[0], folder, method, field)
        groups.setdefault(value(folder.spec, field), []).append(folder)
    found: dict[Any, Runs] = {}
    for members in groups.values():
        runs = _runs(artifact, members)
        frame: Any = runs.frame[runs.frame["method"] == method]
        for key, part in by_lane(dataclasses.replace(runs, frame=frame), field).items():
            if key in found:
                raise StudyError(f"Several folders have {field} = {key}: name one of them.")
            found[key] = part
    return {key: found[key] for key in sorted(found, key=functools.partial(_rank, _SHAPES))}


def by_lane(runs: Runs, field: str) -> dict[Any, Runs]:
    """Return {value: studies}, divided by the value of a field in their lanes."""
    column, usual = f"{HYPER}{field.split('.')[-1]}", value(runs.spec, field)
    rows: Any = runs.frame
    if column not in rows:
        return {usual: runs}
    # The column holds objects, since a value may be a name; lanes of other folders may lack it.
    given = rows[column].astype(object)
    keys = given.where(rows[column].notna(), usual).map(lambda v: lane_value(field, _rounded(v)))
    chosen = sorted(keys.unique(), key=functools.partial(_rank, _SHAPES))
    return {key: dataclasses.replace(runs, frame=rows[keys == key]) for key in chosen}


def by_task(artifact: Artifact, paths: Sequence[str | Path]) -> dict[str, Runs]:
    """Return {task: studies} for studies of single tasks, in the order of the artifact."""
    groups: dict[str, list[Folder]] = {}
    for folder in read(artifact, paths):
        names = folder.spec.task_names
        if len(names) != 1:
            raise StudyError(
                f"{folder.path} is a study of {len(names)} tasks, {', '.join(names)}; "
                f"{artifact.id} needs studies of single tasks."
            )
        groups.setdefault(names[0], []).append(folder)
    order = [name for study in artifact.studies for name in study.spec().task_names]
    ranked = sorted(groups, key=functools.partial(_rank, order))
    return {name: _runs(artifact, groups[name]) for name in ranked}


def _folders(path: str | Path) -> list[Folder]:
    if kept.is_kept(path):
        return [kept.folder(path)]
    return [Folder.read(each) for each in studies(path)]


def _runs(artifact: Artifact, folders: list[Folder]) -> Runs:
    if not any(kept.is_kept(folder.path) for folder in folders):
        return Runs(tuple(folders), load([folder.path for folder in folders]), artifact.returns)
    if len(folders) > 1:
        raise StudyError(
            f"{folders[0].path} and {folders[1].path}: curves in bins cannot be combined with "
            "other runs. Name one of them."
        )
    return Runs(tuple(folders), kept.frame(folders[0]), artifact.returns)


def _rounded(setting: Any) -> Any:
    """Round a number of a lane: 0.015 and its nearest float32 count as one value."""
    return float(f"{setting:.6g}") if isinstance(setting, float) else setting


def _rank(order: Sequence[Any], key: Any) -> tuple[int, Any]:
    """Return a sort key: numbers by size, names in the given order, then other names."""
    if isinstance(key, int | float):
        return 0, key
    order = list(order)
    return 1, (order.index(key) if key in order else len(order), str(key))


def _check_alike(first: Folder, other: Folder, method: str, varied: str) -> None:
    allowed = {varied, *(_WITH_ROLLOUT if varied == "rollout" else ())}
    found = differences(first.spec, other.spec, [method])
    unlike = {name: both for name, both in found.items() if name not in allowed}
    if unlike:
        text = ", ".join(f"{name} ({a} and {b})" for name, (a, b) in unlike.items())
        raise StudyError(
            f"{first.path} and {other.path} differ in more than {varied}: {text}. "
            "Name folders that differ only in that."
        )
