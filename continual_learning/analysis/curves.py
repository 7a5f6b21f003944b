"""One metric of one method over training, seed by seed, as arrays from the table of studies."""

from __future__ import annotations

import dataclasses
import difflib
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from continual_learning.analysis import style
from continual_learning.analysis.loading import STUDIES
from continual_learning.diagnostics.binning import bin_ends, bin_means
from continual_learning.studies.store.manifest import differences
from continual_learning.studies.store.parts import HYPER

if TYPE_CHECKING:
    import pandas as pd

RETURNS = ("latest_return", "episode_return")
"""Columns of returns; the first one that a table has is used."""
DEFAULT_METRIC = (*RETURNS, "test_accuracy", "train_accuracy", "online_accuracy")
"""Columns that can measure how well a method does; the first one with values is used."""


class CurvesError(ValueError):
    """Metrics cannot be compared as they are; the message says what to do."""


@dataclasses.dataclass(frozen=True, eq=False)
class Curves:
    """One metric of one method over training.

    Attributes:
      method: its name, followed by the hyper-parameters in which lanes differ, if any:
        "cpr (max_reset=0.01)".
      metric: the column.
      seeds: int64 [seeds].
      steps: int64 [points], ascending, the same for all seeds: the end of each bin, or the step of
        each row.
      tasks: int64 [points], the task of the last row of the bin.
      values: float64 [seeds, points]; NaN where nothing was measured (yet).
      expected: the last step of a finished run, if known.
    """

    method: str
    metric: str
    seeds: np.ndarray
    steps: np.ndarray
    tasks: np.ndarray
    values: np.ndarray
    expected: int | None = None

    def __post_init__(self):
        shape = (len(self.seeds), len(self.steps))
        if self.values.shape != shape or self.tasks.shape != self.steps.shape:
            raise CurvesError(
                f"values must be [seeds, points] {list(shape)} and tasks [points], got "
                f"{list(self.values.shape)} and {list(self.tasks.shape)}."
            )
        if (np.diff(self.steps) <= 0).any():
            raise CurvesError("steps must be strictly ascending.")

    def whole(self) -> Curves:
        """Return these curves; raise a CurvesError if a point is missing or the run unfinished."""
        reached = int(self.steps[-1]) if len(self.steps) else 0
        if not self.values.size:
            raise self._missing("it has no complete point yet")
        missing = np.isnan(self.values)
        if missing.any():
            first = {
                int(self.seeds[i]): int(self.steps[missing[i].argmax()])
                for i in np.flatnonzero(missing.any(axis=1))
            }
            shown = ", ".join(f"{seed} (from step {step:,})" for seed, step in [*first.items()][:5])
            more = f" and {len(first) - 5} more" if len(first) > 5 else ""
            raise self._missing(
                f"{int(missing.sum())} of {missing.size} values are missing, of seed {shown}{more}"
            )
        if self.expected is not None and reached < self.expected:
            raise self._missing(f"it has reached step {reached:,} of {self.expected:,}")
        return self

    def common(self) -> Curves:
        """Return the points that every seed has, as curves without an expected last step."""
        kept = ~np.isnan(self.values).any(axis=0)
        return dataclasses.replace(
            self,
            steps=self.steps[kept],
            tasks=self.tasks[kept],
            values=self.values[:, kept],
            expected=None,
        )

    def _missing(self, what: str) -> CurvesError:
        return CurvesError(
            f"{self.metric} of {self.method} is incomplete: {what}. Finish the study (`continual "
            "resume DIR`), bin the steps if a row may lack a value, leave out the seeds that are "
            "behind, or compare the points that all seeds have (`common()`)."
        )


def main_metric(frame: pd.DataFrame) -> str:
    """Return the column that measures how well a method does: the first of `DEFAULT_METRIC`."""
    for name in DEFAULT_METRIC:
        if name in metrics(frame) and frame[name].notna().to_numpy().any():
            return name
    raise CurvesError(
        f"None of {', '.join(DEFAULT_METRIC)} was measured. "
        f"Name one of: {', '.join(metrics(frame))}."
    )


def curves(
    frame: pd.DataFrame, metric: str, *, bin: int | None = None, expected: int | None = None
) -> dict[str, Curves]:
    """Return a metric of every method as arrays.

    Bin k has the rows with k·bin < step ≤ (k + 1)·bin, and its value is the mean of those that are
    not NaN. A bin whose end a seed has not reached is missing (NaN), except the last one of a
    finished run, which ends with the run. Several studies may have different seeds of a method;
    the same seed twice, and seeds with different settings, are refused.

    Args:
      frame: from `load`.
      metric: the column. Infinite values are refused.
      bin: the width of a bin in steps; None for the rows as they are.
      expected: the last step of a finished run; None for the one that `load` found, if any.

    Returns:
      {method: curves} in the order of `style.colors`; lanes with different hyper-parameters have
      curves of their own.
    """
    values = _column(frame, metric)
    if bin is not None and (not isinstance(bin, int | np.integer) or bin < 1):
        raise CurvesError(f"bin must be a whole number of steps, at least 1; got {bin!r}.")
    # Rows are taken often, and other metrics need not come with them.
    index: Any = frame.filter(regex=f"^(study|method|seed|step|task|{HYPER}.*)$")
    found: dict[str, Curves] = {}
    for method in style.colors(index["method"].unique()):
        of_method = np.flatnonzero(index["method"] == method)
        for label, lane in _lanes(index.iloc[of_method], method):
            where = of_method[lane]
            rows = index.iloc[where]
            last = _last_step(rows, method, label, frame.attrs.get(STUDIES, {}))
            last = last if expected is None else expected
            found[label] = _curves(rows, label, metric, values[where], bin, last)
    return found


def _curves(
    rows: pd.DataFrame,
    label: str,
    metric: str,
    values: np.ndarray,
    width: int | None,
    expected: int | None,
) -> Curves:
    seed, step, task = (rows[name].to_numpy(np.int64) for name in ("seed", "step", "task"))
    if step.min() < 0:
        raise CurvesError(f"{label} has a step below 0: {step.min()}.")
    if expected is not None and step.max() > expected:
        raise CurvesError(
            f"{label} has rows up to step {step.max():,}, but a finished run ends at {expected:,}."
        )
    infinite = np.isinf(values)
    if infinite.any():
        at = int(infinite.argmax())
        raise CurvesError(
            f"{metric} of {label} is {values[at]} at step {step[at]:,} of seed {seed[at]}: the run "
            "diverged. To treat that as not measured, replace it with NaN in the table: "
            f"frame[{metric!r}] = frame[{metric!r}].replace([np.inf, -np.inf], np.nan)."
        )
    seeds, lane = np.unique(seed, return_inverse=True)
    steps, point = np.unique(step, return_inverse=True)
    counts = np.bincount(lane * len(steps) + point)
    if counts.max() > 1:
        twice = int(counts.argmax())
        raise CurvesError(
            f"{label} has more than one row of seed {seeds[twice // len(steps)]} at step "
            f"{steps[twice % len(steps)]:,}: load each study once, and keep one of the rows."
        )
    tasks = np.zeros(len(steps), np.int64)
    tasks[point] = task
    if (tasks[point] != task).any():
        at = int((tasks[point] != task).argmax())
        raise CurvesError(
            f"The seeds of {label} disagree about the task of step {step[at]:,}: "
            f"{tasks[point[at]]} and {task[at]}. They are not of the same experiment."
        )
    grid = np.full((len(seeds), len(steps)), np.nan)
    grid[lane, point] = values
    if width is None:
        return Curves(label, metric, seeds, steps, tasks, grid, expected)
    ends = bin_ends(steps, width, expected)
    where, means = bin_means(ends, grid)
    reached = np.full(len(seeds), -1)
    np.maximum.at(reached, lane, step)
    means[where > reached[:, None]] = np.nan
    begun = where <= reached.max()
    last = np.searchsorted(ends, where, side="right") - 1
    return Curves(label, metric, seeds, where[begun], tasks[last][begun], means[:, begun], expected)


def _lanes(rows: pd.DataFrame, method: str) -> Iterator[tuple[str, np.ndarray]]:
    """Yield (label, indices of its rows) for each combination of hyper-parameters that differ."""
    hyper: Any = rows.filter(regex=f"^{HYPER}")
    hyper = hyper.loc[:, hyper.nunique(dropna=False) > 1]
    if hyper.empty:
        yield method, np.arange(len(rows))
        return
    groups = hyper.groupby(list(hyper), dropna=False).ngroup().to_numpy()
    for group in np.unique(groups):
        where = np.flatnonzero(groups == group)
        given = hyper.iloc[where[:1]].dropna(axis=1)
        values = [f"{name.removeprefix(HYPER)}={given[name].iloc[0]!s}" for name in given]
        yield f"{method} ({', '.join(values)})" if values else method, where


def _last_step(
    rows: pd.DataFrame, method: str, label: str, facts: dict[str, dict[str, Any]]
) -> int | None:
    """Return the last step of a finished run; raise a CurvesError if studies do not match."""
    if "study" not in rows:
        [fact] = facts.values() if len(facts) == 1 else [{}]
        return fact.get("last_step")
    groups: Any = rows.groupby("study")["seed"]
    seeds = {study: set(group) for study, group in groups}
    for pair in itertools.combinations(seeds, 2):
        both = sorted(set.intersection(*map(seeds.__getitem__, pair)))
        other_fields = differences(*(_settings(facts.get(study, {}), method) for study in pair))
        if both or other_fields:
            what = f"seeds {both}" if both else f"other settings ({', '.join(other_fields)})"
            raise CurvesError(
                f"{' and '.join(pair)} both have {label}, with {what}. Take one of them "
                "(`continual report` shows both), or in Python name them apart: "
                "frame.loc[frame.study == …, 'method'] = 'another name'."
            )
    return facts.get(next(iter(seeds)), {}).get("last_step")


def _settings(fact: dict[str, Any], method: str) -> dict[str, Any]:
    """Return the settings that shape a run of a method: not its seeds, title or other methods."""
    experiment = fact.get("experiment")
    if not isinstance(experiment, dict):
        return {"experiment": experiment}
    apart = ("title", "seeds", "scales", "methods", "data_folder", "collapse")
    rest = {name: value for name, value in experiment.items() if name not in apart}
    return rest | {f"methods.{method}": experiment.get("methods", {}).get(method, {})}


def _column(frame: pd.DataFrame, metric: str) -> np.ndarray:
    """Return a metric, float64 [rows]; raise a CurvesError if the table lacks a column."""
    absent = [name for name in ("method", "seed", "step", "task") if name not in frame]
    if absent:
        raise CurvesError(f"The table lacks the columns {absent}: use one from `load`.")
    for name in ("seed", "step", "task"):
        if frame[name].dtype.kind not in "iu":
            raise CurvesError(f"Column {name!r} must hold whole numbers, got {frame[name].dtype}.")
    if not len(frame):
        raise CurvesError("The table has no rows: nothing was measured yet.")
    known = metrics(frame)
    if metric not in known:
        close = difflib.get_close_matches(str(metric), known, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise CurvesError(f"Unknown metric {metric!r}.{hint} Valid: {', '.join(known)}.")
    return frame[metric].to_numpy(np.float64, na_value=np.nan)


def metrics(frame: pd.DataFrame) -> list[str]:
    """Return the names of the columns that hold measured numbers."""
    index = ("study", "method", "seed", "step", "task")
    numbers = frame.select_dtypes(["number", "bool"]).columns
    return [n for n in numbers if n not in index and not n.startswith(HYPER)]
