"""Panels of curves: the interquartile mean over seeds, with the interquartile range as a band."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from continual_learning.analysis import statistics
from continual_learning.analysis.curves import RETURNS, Curves
from continual_learning.diagnostics.metrics import metric
from continual_learning.paper.figures import theme
from continual_learning.paper.figures.theme import alt
from continual_learning.paper.remarks import usable
from continual_learning.paper.runs import Runs

_MOST_BOUNDARIES = 40


def axis(column: str) -> tuple[str, str]:
    """Return the title of a metric's axis, and the format of its numbers."""
    if column in RETURNS:
        return "episodic return", ""
    known = metric(column)
    return known.title.lower(), "~%" if known.share else ""


def panel(
    runs: Runs,
    curves: Mapping[str, Curves],
    color: Any,
    *,
    y: str,
    title: str = "",
    field: str = "method",
    band: bool = True,
    width: int = theme.WIDTH,
    height: int = theme.HEIGHT,
    format: str = "",
) -> Any:
    """Draw a panel of curves over training.

    Args:
      runs: the studies of the curves.
      curves: {name in the legend: curves}.
      color: the encoding of the names.
      y: the title of the y axis.
      title: the title of the panel.
      field: what the names stand for.
      band: whether to show the interquartile range.
      width: the width of the plot and its axis, in points.
      height: the height of the plot.
      format: the format of the numbers on the y axis; empty for the usual one.
    """
    last = max((int(c.steps[-1]) for c in curves.values() if len(c.steps)), default=1)
    factor, prefix = next((f, p) for f, p in ((1e6, "M"), (1e3, "k"), (1, "")) if last >= f)
    rows: list[dict[str, Any]] = []
    for name, each in curves.items():
        kept = usable(each)
        if kept is not None:
            low, high = statistics.iqr(kept.values)
            middle, steps = statistics.iqm(kept.values), kept.steps / factor
            names = [theme.label(name)] * len(steps)
            rows += theme.records(
                **{field: names, "step": steps, "iqm": middle, "low": low, "high": high}
            )
    unit = runs.spec.step_unit
    x = alt.X(
        "step:Q",
        title=f"{unit} ({prefix})" if prefix else unit,
        scale=alt.Scale(domain=[0, max(runs.spec.steps, last) / factor], nice=False),
        axis=alt.Axis(grid=False, tickCount=5),
    )
    numbers: Any = {"tickCount": 5} | ({"format": format} if format else {})
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=x, color=color)
    lines = base.mark_line().encode(
        y=alt.Y("iqm:Q", title=y, scale=alt.Scale(zero=False), axis=alt.Axis(**numbers))
    )
    layers = [*_boundaries(runs, factor), lines]
    if band:
        area = base.mark_area(opacity=0.13, line=False).encode(
            y=alt.Y("low:Q", title=y), y2="high:Q"
        )
        layers.insert(-1, area)
    inner = width - theme.AXIS
    if title:
        layers.append(_title(title, inner))
    return alt.layer(*layers).properties(width=inner, height=height)


def _title(text: str, width: int) -> Any:
    """Draw a title at the same height in all panels; Altair's own moves with the axis labels."""
    mark = {"fontSize": 8, "fontWeight": "bold", "color": theme.INK, "baseline": "bottom"}
    return (
        alt.Chart(alt.InlineData(values=[{}]))
        .mark_text(**mark)
        .encode(x=alt.value(width / 2), y=alt.value(-6), text=alt.value(text))
    )


def _boundaries(runs: Runs, factor: float) -> list[Any]:
    """Draw thin lines where tasks change, unless there are too many."""
    spec = runs.spec
    if not 1 < spec.tasks <= _MOST_BOUNDARIES:
        return []
    ends = np.arange(1, spec.tasks) * spec.steps_per_task / factor
    data = alt.InlineData(values=theme.records(step=ends))
    return [alt.Chart(data).mark_rule(color=theme.GRID, strokeWidth=0.5).encode(x="step:Q")]
