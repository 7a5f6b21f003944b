"""Tables of average, final and peak performance: the paper's numbers beside those of a study."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from continual_learning.analysis import style, summary
from continual_learning.analysis.curves import Curves
from continual_learning.paper.artifacts import Artifact
from continual_learning.paper.numbers import results
from continual_learning.paper.remarks import (
    AS_PUBLISHED,
    OURS,
    binned,
    left_out,
    million,
    of_metric,
    once,
    remarks,
    usable,
)
from continual_learning.paper.runs import by_experiment, by_lane, by_value
from continual_learning.paper.tables.table import (
    ABSENT,
    Cell,
    Column,
    Measured,
    Table,
    mark_best,
    measured,
)
from continual_learning.paper.tables.writers import shown
from continual_learning.studies import registry

_DECIMALS = {"continual_metaworld": 3, "continual_minatar": 1}
_METRICS = {"continual_metaworld": ("success", "eval_seen_success")}
"""{experiment: metrics of training and of evaluations} where these are not returns."""
_SHAPES = {
    "linear": "Linear",
    "exp": "Exponential",
    "softplus": "Softplus",
    "sigmoid": "Sigmoid",
}


_STATISTICS = ("average", "final", "peak")


class _Row(NamedTuple):
    """The contents of a row.

    Attributes:
      name: the name of the method.
      paper: {statistic: numbers} as printed; None if the paper has no such row.
      curves: {metric: curves of our runs; None if there are none}.
    """

    name: str
    paper: Mapping[str, Any] | None
    curves: Mapping[str, Curves | None]


def methods(artifact: Artifact, folders: Sequence[str | Path]) -> Table:
    """Return rows for each method of an experiment, beside those of the paper if there are any."""
    [(name, runs)] = by_experiment(artifact, folders).items()
    returns = (*(runs.returns or (runs.metric,)), "published_return", "eval_seen")
    chosen = _METRICS.get(name, returns)
    here = [metric for metric in chosen if metric in runs.frame]
    paper = {"rows": {}} if artifact.any_study else results(name)
    found = {metric: runs.curves(metric) for metric in here}
    ran = dict.fromkeys(method for of_metric in found.values() for method in of_metric)
    order = [*paper["rows"], *(method for method in ran if method not in paper["rows"])]
    rows = [
        _Row(style.name(m), paper["rows"].get(m), {name: found[name].get(m) for name in here})
        for m in order
    ]
    # If the paper does not print its steps, they are those of the experiment.
    size = {} if artifact.any_study else {"steps": registry.get(name).steps, **paper}
    said = [*remarks(runs, paper["rows"], size), *binned(runs)]
    notes = [f"This study: {' '.join(said)}"]
    for metric in here:
        said = [*of_metric(metric), *left_out(found[metric])]
        notes += [" ".join(said)] if said else []
    columns = next(iter(paper["rows"].values()), _STATISTICS)
    statistics = [each for each in _STATISTICS if each in columns]
    decimals = _DECIMALS.get(name, 0)
    if artifact.any_study:
        decimals = _decimals(found.values())
        artifact = dataclasses.replace(artifact, title=f"{runs.spec.title}: average, final, peak")
    return _compared(artifact, rows, statistics, notes, decimals)


def _decimals(found: Iterable[Mapping[str, Curves]]) -> int:
    """Digits after the point with which the largest number has three."""
    largest = [np.nanmax(np.abs(c.values), initial=0) for of in found for c in of.values()]
    return max(0, 2 - math.floor(math.log10(max(*largest, 1e-9))))


def shapes(artifact: Artifact, folders: Sequence[str | Path]) -> Table:
    """Return the table of the shapes of CPR's reset, with rows for each shape."""
    paper, by_shape = results("reset_shapes"), by_value(artifact, folders)
    rows, notes = [], []
    for shape in (*paper["rows"], *(shape for shape in by_shape if shape not in paper["rows"])):
        curves, runs = {}, by_shape.get(shape)
        name = _SHAPES.get(shape, str(shape))
        if runs is not None:
            curves = {metric: runs.curve(metric) for metric in runs.returns}
            size = {"seeds": paper["seeds"], "steps": results(paper["environment"])["steps"]}
            said = [
                *remarks(runs, ("cpr",), size, apart=artifact.varied),
                *binned(runs),
            ]
            for metric, each in curves.items():
                said += [*of_metric(metric), *left_out({f"{name} ({metric})": each})]
            notes.append(f"{name}: {' '.join(said)}")
        rows.append(_Row(name, paper["rows"].get(shape), curves))
    return _compared(artifact, rows, ["peak", "average", "final"], notes, 0, "Transformation")


def shapes_and_sharpness(artifact: Artifact, folders: Sequence[str | Path]) -> Table:
    """Return the table of the shapes of CPR's reset, with a row for each sharpness of a shape."""
    rows: list[list[Cell]] = []
    notes, lines = {}, {}
    for shape, runs in by_value(artifact, folders).items():
        name = _SHAPES.get(shape, str(shape))
        notes[name] = " ".join(remarks(runs, ("cpr",)))
        for sharpness, part in by_lane(runs, "cpr.sharpness").items():
            curves = part.curve(part.metric)
            lines[f"{name}, κ {shown(sharpness)}"] = curves
            kept = usable(curves)
            ours = None if kept is None else summary.ours(kept)
            cells = [_found(ours, each, "interval", 4, False) for each in _STATISTICS]
            rows.append([name, shown(sharpness), *cells])
    for number in range(2, 2 + len(_STATISTICS)):
        rows = mark_best(rows, number)
    return Table(
        artifact.title,
        (
            Column("Shape", "shape"),
            Column("κ", "sharpness"),
            *(Column(each.capitalize(), each) for each in _STATISTICS),
        ),
        tuple(map(tuple, rows)),
        (*once(notes, "Each shape"), *left_out(lines), OURS),
        artifact.label,
    )


def _compared(
    artifact: Artifact,
    rows: Sequence[_Row],
    statistics: Sequence[str],
    notes: Sequence[str],
    decimals: int,
    first: str = "Method",
) -> Table:
    lines: dict[str, list[list[Cell]]] = {}
    metrics = dict.fromkeys(metric for row in rows for metric in row.curves)
    printed = any(row.paper for row in rows)
    for row in rows:
        at_step = bool(row.paper and "peak_step" in row.paper)
        sources = {}
        if printed:
            sources["paper"] = [_printed(row.paper, each, decimals) for each in statistics]
        for metric in metrics:
            curves = row.curves.get(metric)
            kept = None if curves is None else usable(curves)
            published = None if kept is None else summary.as_published(kept)
            ours = None if kept is None else summary.ours(kept)
            if printed:
                sources[f"{metric}, as published"] = [
                    _found(published, each, "errors", decimals, at_step) for each in statistics
                ]
            sources[f"{metric}, IQM of seeds"] = [
                _found(ours, each, "interval", decimals, at_step) for each in statistics
            ]
        for source, cells in sources.items():
            lines.setdefault(source, []).append([row.name, source, *cells])
    for number in range(2, 2 + len(statistics)):
        lines = {source: mark_best(each, number) for source, each in lines.items()}
    return Table(
        artifact.title,
        (
            Column(first, first.lower()),
            Column("Source", "source"),
            *(Column(each.capitalize(), each) for each in statistics),
        ),
        tuple(tuple(line) for of_row in zip(*lines.values(), strict=True) for line in of_row),
        (*notes, *[AS_PUBLISHED] * printed, OURS),
        artifact.label,
    )


def _printed(row: Mapping[str, Any] | None, statistic: str, decimals: int) -> Cell:
    """Return the cell of printed numbers: [value, up, down], [value, error] or a value."""
    if row is None:
        return ABSENT
    numbers, at = row[statistic], ""
    if statistic == "peak" and "peak_step" in row:
        at = f"at {million(row['peak_step'])}"
    if not isinstance(numbers, list):
        return Measured(numbers, decimals=3)
    value, up, down = (*numbers, numbers[-1])[:3]
    form = "errors" if len(numbers) == 3 else "symmetric"
    return Measured(value, value - down, value + up, form, decimals, remark=at)


def _found(
    found: summary.Summary | None,
    statistic: str,
    form: Literal["errors", "interval"],
    decimals: int,
    at_step: bool,
) -> Cell:
    if found is None:
        return ABSENT
    at = f"at {million(found.peak_step)}" if at_step and statistic == "peak" else ""
    return measured(getattr(found, statistic), form, decimals, at)
