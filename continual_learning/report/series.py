"""The curves of a section as compact data for the page.

The page only draws: every statistic is computed here, from all rows. For each metric, level of
smoothing and method, the data hold the lines of the seeds, the IQM over seeds with the 25th and
75th percentile, and the number of seeds with a value. If there are more rows than can be drawn,
rows are binned. Lines of seeds then show the smallest and the largest value of each bin, so that no
extreme is lost, while the IQM is over the means of the bins.
"""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from continual_learning.analysis import statistics
from continual_learning.analysis.curves import Curves, curves
from continual_learning.diagnostics import metrics
from continual_learning.diagnostics.binning import bin_ends, bin_means
from continual_learning.report.studies import Section, numeric, parameters
from continual_learning.studies.store.parts import HYPER

BYTES = 8_000_000
"""The approximate limit for the size of all lines of seeds on the page."""

MOST, LEAST = 800, 100
"""Limits for the points, or bins, of a line, whatever the size of the page."""

PAPER_BIN = 2_000_000
"""Steps of a bin in the paper's tables and figures."""

_MISSING = 65535
_LOG_RANGE = 1000.0  # a positive metric with a larger ratio has a logarithmic axis


class Level(NamedTuple):
    """A choice of smoothing.

    Attributes:
      text: its name.
      width: the width of its bins in steps; None for the rows as they are.
      extremes: whether lines of seeds show the smallest and the largest value of each bin.
    """

    text: str
    width: int | None
    extremes: bool = False


class Rows(NamedTuple):
    """The rows of a method: `curves` whose values are row numbers of the table."""

    curves: Curves
    reached: np.ndarray  # [seeds], the last step of every seed


def locate(section: Section) -> dict[str, Rows]:
    """Return {method: where its rows are} in the order of the page."""
    frame = section.frame
    hyper = [name for name in frame if str(name).startswith(HYPER)]
    index = frame[["method", "seed", "step", "task", *hyper]]
    numbered = index.assign(row=np.arange(len(index), dtype=np.float64))
    found = {}
    for label, each in curves(numbered, "row", expected=section.end).items():
        steps = np.where(np.isnan(each.values), -1, each.steps)
        found[label] = Rows(each, steps.max(axis=1))
    return found


def values_of(rows: Rows, column: np.ndarray) -> np.ndarray:
    """Return the values of a column [seeds, points], NaN where a seed has no row."""
    where = rows.curves.values
    return np.where(np.isnan(where), np.nan, column[np.nan_to_num(where).astype(np.int64)])


def points(lines: int) -> int:
    """Return how many points, or bins, a line may have so that the page stays small."""
    of_line = BYTES / max(1, lines)
    return int(np.clip(of_line / (2 * 2 * 4 / 3), LEAST, MOST))  # two numbers of two bytes, base64


def levels(section: Section, rows: dict[str, Rows], most: int) -> list[Level]:
    """Return the choices of smoothing: rows if they are few enough, parts of a task, tasks."""
    steps = max((each.curves.steps for each in rows.values()), key=len)
    spacing = int(np.median(np.diff(steps, prepend=0)))
    extent = int(section.frame.step.max())
    unit = "steps" if section.agent is None else section.agent.step_unit.split()[-1]
    if len(steps) <= most:
        found = [Level(f"none: a point every {spacing:,} {unit}", None)]
    else:
        together = -(-len(steps) // most)
        width = together * spacing
        found = [Level(f"{width:,} {unit} ({together} rows)", width, True)]
    task = section.steps_per_task or extent // max(1, section.frame.task.nunique())
    tenth = PAPER_BIN if task > 4 * PAPER_BIN else task // 10
    for width, text in (
        (tenth, f"{tenth:,} {unit}"),
        (task, f"a task ({task:,} {unit})"),
        (5 * task, f"5 tasks ({5 * task:,} {unit})"),
    ):
        finer = found[-1].width or spacing
        if width >= 2 * finer and extent >= 8 * width:
            found.append(Level(text, width))
    return found


def drawn(section: Section) -> tuple[list[str], list[str]]:
    """Return the columns that are drawn as curves, and the parameters that tasks change.

    Columns without a value and parameters that no task changes are in neither list.
    """
    frame: Any = section.frame
    known = () if section.stream is None else section.stream.parameters
    names = [name for name in numeric(frame) if frame[name].notna().any()]
    changing = [name for name in parameters(frame, names) if frame[name].nunique() > 1]
    return [name for name in names if name not in (*changing, *known)], changing


def section_data(section: Section, rows: dict[str, Rows], main: str, most: int) -> dict[str, Any]:
    """Return the data that the page needs to draw a section, ready for JSON.

    Args:
      section: the studies.
      rows: from `locate`.
      main: the metric that is shown large at first.
      most: the largest number of points in a line.
    """
    frame: Any = section.frame
    grids = _Grids()
    seeds = sorted({int(seed) for each in rows.values() for seed in each.curves.seeds})
    chosen = levels(section, rows, most)
    names, changing = drawn(section)
    ends = frame.groupby("task").step.max().cummax().to_numpy(np.float64)
    called = section.names
    if called:  # names say more than numbers
        changing = [name for name in changing if name != "game"]
    groups = [
        {
            "title": group,
            "metrics": [_metric(frame[name], rows, chosen, section.end, grids) for name in columns],
        }
        for group, columns in metrics.grouped(names).items()
    ]
    return {
        "extent": int(max(frame.step.max(), section.end or 0)),
        "methods": [
            {"name": label, "seeds": [seeds.index(int(seed)) for seed in each.curves.seeds]}
            for label, each in rows.items()
        ],
        "seeds": seeds,
        "boundaries": _text(ends),
        "tasks": [called[i % len(called)] for i in range(len(ends))] if called else [],
        "strips": [_strip(frame, name, seeds) for name in changing],
        "levels": [level.text for level in chosen],
        "binned": chosen[0].extremes,
        "groups": groups,
        "grids": grids.texts,
        "main": main,
    }


def _metric(
    column: pd.Series, rows: dict[str, Rows], chosen: list[Level], end: int | None, grids: _Grids
) -> dict[str, Any]:
    about = metrics.metric(str(column.name))
    numbers = column.to_numpy(np.float64, na_value=np.nan)
    finite = numbers[np.isfinite(numbers)]
    low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 0.0)
    log = bool(not about.share and low > 0 and high > _LOG_RANGE * low)
    of_rows = {label: values_of(each, numbers) for label, each in rows.items()}
    lines = [
        [_line(each, of_rows[label], level, end, log, grids) for label, each in rows.items()]
        for level in chosen
    ]
    return {**about._asdict(), "log": log, "lines": lines}


def _line(
    rows: Rows, values: np.ndarray, level: Level, end: int | None, log: bool, grids: _Grids
) -> dict[str, Any] | None:
    """Return a metric of a method at one level; None if it was never measured."""
    measured = ~np.isnan(values).all(axis=0)  # ranks, for example, are not measured in every row
    if not measured.any():
        return None
    steps, values = rows.curves.steps[measured], values[:, measured]
    drawn, each = values, 1
    if level.width is not None:
        ends = bin_ends(steps, level.width, end)
        _, first = np.unique(ends, return_index=True)
        where, means = bin_means(ends, values)
        if level.extremes:
            low, high = (f.reduceat(values, first, axis=1) for f in (np.fmin, np.fmax))
            # The smallest and the largest value swap places in every other bin: lines jump less.
            drawn, each = np.stack([low, high], axis=2), 2
            drawn[:, 1::2] = drawn[:, 1::2, ::-1]
            drawn = drawn.reshape(len(values), -1)
        else:
            drawn = means
        # The mean of a bin that is not full yet cannot be compared with others.
        values = np.where(where > rows.reached[:, None], np.nan, means)
        steps = np.minimum(where, rows.reached.max())
    return {
        "grid": grids.number(steps),
        "each": each,
        "seeds": pack(drawn, log),
        "center": pack(np.stack([statistics.iqm(values), *statistics.iqr(values)]), log),
        "count": _text((~np.isnan(values)).sum(axis=0).astype("<u2")),
    }


def _strip(frame: pd.DataFrame, name: str, seeds: list[int]) -> dict[str, Any]:
    """Return a parameter of tasks: [seeds, tasks], or [1, tasks] if all seeds share it."""
    table = frame.groupby(["seed", "task"])[name].first().unstack("task").reindex(seeds)
    values = table.to_numpy(np.float64)
    known = [column[~np.isnan(column)] for column in values.T]
    same = all(len(np.unique(column)) <= 1 for column in known)
    if same:
        values = np.array([[column[0] if len(column) else np.nan for column in known]])
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    log = low > 0 and high > 10 * low
    return {
        "name": name,
        "same": same,
        "log": log,
        "low": low,
        "high": high,
        "values": _text(values),
    }


def pack(values: np.ndarray, log: bool = False) -> dict[str, str]:
    """Return rows [rows, points] as 16-bit numbers between their extremes; NaN has its own code."""
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.log(values) if log else values
    finite = np.isfinite(values)
    low = np.where(finite, values, np.inf).min(axis=1, initial=np.inf)
    high = np.where(finite, values, -np.inf).max(axis=1, initial=-np.inf)
    low, high = (np.where(np.isfinite(x), x, 0.0) for x in (low, high))
    scale = np.where(high > low, high - low, 1.0)
    share = np.where(finite, (values - low[:, None]) / scale[:, None], 0.0)
    codes = np.where(finite, np.rint(share * (_MISSING - 1)), _MISSING).astype("<u2")
    return {"low": _text(low), "high": _text(high), "values": _text(codes)}


class _Grids:
    """Grids of steps, stored once for all lines that share them."""

    def __init__(self):
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, steps: np.ndarray) -> int:
        text = _text(steps.astype(np.float64))
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]


def _text(values: np.ndarray) -> str:
    kind = "<u2" if values.dtype.kind == "u" else "<f8"
    return base64.b64encode(np.ascontiguousarray(values, kind).tobytes()).decode()
