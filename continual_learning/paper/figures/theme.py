"""The look of all figures (sizes, fonts, lines and colors), and how they are saved."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from continual_learning import extras
from continual_learning.analysis import style
from continual_learning.paper.artifacts import METHODS
from continual_learning.schema.errors import StudyError

extras.require("figures")

import altair as alt  # noqa: E402

WIDTH = 397
"""The width of a whole figure in points: 5.5 inches, as the text of a single-column paper."""

HEIGHT = 150
"""The height of a panel in points."""

AXIS = 46
"""The width of the labels and the title of a panel's y axis."""

ROW = 24
"""The height of a method's row, in figures with a row for each method."""

FORMATS = ("svg", "pdf", "png", "html")
"""The formats in which a figure can be written, by the suffix of its file."""

INK = "#222222"
FAINT = "#8a8a8a"
GRID = "#e6e6e6"
_FONT = "Helvetica, Arial, Liberation Sans, DejaVu Sans, sans-serif"
_PRINT = 4.2  # pixels per point of a PNG: about 300 dots per inch

_CONFIG: dict[str, Any] = {
    "font": _FONT,
    "background": "white",
    "padding": 4,
    "view": {"stroke": None},
    "line": {"strokeWidth": 1.3, "strokeJoin": "round"},
    "axis": {
        "labelFontSize": 7,
        "titleFontSize": 8,
        "titleFontWeight": "normal",
        "labelColor": INK,
        "titleColor": INK,
        "titlePadding": 5,
        "domainColor": FAINT,
        "tickColor": FAINT,
        "tickSize": 3,
        "domainWidth": 0.6,
        "tickWidth": 0.6,
        "gridColor": GRID,
        "gridWidth": 0.5,
        "labelPadding": 2,
        "labelFlush": False,
    },
    "legend": {
        "orient": "top",
        "direction": "horizontal",
        "title": None,
        "labelFontSize": 8,
        "labelColor": INK,
        "labelLimit": 0,
        "titleFontSize": 8,
        "titleFontWeight": "normal",
        "titleOrient": "left",
        "titlePadding": 8,
        "symbolSize": 80,
        "symbolStrokeWidth": 2,
        "columnPadding": 9,
        "offset": 6,
        "padding": 0,
    },
}


class Drawn(NamedTuple):
    """A figure before the common look is applied.

    Attributes:
      chart: an Altair chart.
      notes: sentences that stand below it.
      returns: the columns of returns that its study has, if it shows one of them.
    """

    chart: Any
    notes: Sequence[str]
    returns: Sequence[str] = ()


def finish(chart: Any, notes: Iterable[str] = ()) -> Any:
    """Return the chart in the common look, with notes in small print below it."""
    lines = [line for note in notes for line in textwrap.wrap(note, 125)]
    if lines:
        small = alt.TitleParams(
            lines,
            orient="bottom",
            anchor="start",
            frame="bounds",
            fontSize=6,
            fontWeight="normal",
            color=FAINT,
            offset=8,
            lineHeight=8,
        )
        chart = chart.properties(title=small)
    return chart.configure(**_CONFIG)


def headed(chart: Any, text: str) -> Any:
    """Return the chart with a heading above it, as one of several."""
    return chart.properties(
        title=alt.TitleParams(
            text, anchor="start", frame="bounds", fontSize=8, fontWeight="bold", color=INK, offset=6
        )
    )


def by_method(methods: Sequence[str], **legend: Any) -> Any:
    """Return the color encoding of methods, for charts whose column `method` has `label`s."""
    return scale(style.colors(methods), "method", **legend)


def scale(colors: dict[str, str], field: str, title: str | None = None, **legend: Any) -> Any:
    """Return a color encoding whose legend has one row, or two if there are many names."""
    names = [label(name) for name in colors]
    columns = len(names) if sum(len(name) + 4 for name in names) < 90 else (len(names) + 1) // 2
    return alt.Color(
        f"{field}:N",
        scale=alt.Scale(domain=names, range=list(colors.values())),
        legend=alt.Legend(
            title=title, columns=columns, symbolType="stroke", symbolOpacity=1, **legend
        ),
    )


def label(method: str) -> str:
    """Return a method's name in figures, followed by its hyper-parameters, if any."""
    name, bracket, rest = method.partition(" (")
    return style.name(name) + bracket + rest


def in_order(methods: Iterable[str]) -> list[str]:
    """Return methods without repetition: the paper's in the order of its tables, then others."""
    every = dict.fromkeys(methods)
    return [*(m for m in METHODS if m in every), *(m for m in every if m not in METHODS)]


def method_rows(order: Sequence[str], labels: bool = True, padding: float = 0.25) -> Any:
    """Return a y axis with a row for each method, equal in panels side by side."""
    names = [label(method) for method in order]
    return alt.Y(
        "method:N",
        title=None,
        sort=names,
        scale=alt.Scale(domain=names, paddingInner=padding, paddingOuter=padding / 2),
        axis=alt.Axis(labels=labels, ticks=False, domain=False, grid=False, labelFontSize=8),
    )


def records(**columns: Any) -> list[dict[str, Any]]:
    """Return columns of equal length as rows, rounded to the digits that a figure can show."""
    rows = []
    for row in zip(*columns.values(), strict=True):
        rows.append({name: _short(value) for name, value in zip(columns, row, strict=True)})
    return rows


def save(chart: Any, path: str | Path) -> None:
    """Write a figure in the format of its suffix; an HTML page works offline."""
    path = Path(path)
    check_format(path)
    page = {"inline": True, "json_kwds": {"cls": _NoMarkup}}
    more: dict[str, Any] = {"html": page, "png": {"scale_factor": _PRINT}}.get(path.suffix[1:], {})
    path.parent.mkdir(parents=True, exist_ok=True)
    chart.save(str(path), **more)


class _NoMarkup(json.JSONEncoder):
    """A JSON encoder whose text cannot end the script around it."""

    def encode(self, o: Any) -> str:
        return super().encode(o).replace("<", "\\u003c")


def check_format(path: Path) -> None:
    """Raise a StudyError if a figure cannot be written in the format of the suffix."""
    if path.suffix[1:] not in FORMATS:
        raise StudyError(
            f"The name of a figure's file ends with .{', .'.join(FORMATS)}; got {path}."
        )


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return value
    return float(f"{value:.5g}") if math.isfinite(value) else None
