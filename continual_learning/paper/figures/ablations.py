"""Figures of one method with different values of one field: ρ, κ or the size of rollouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from continual_learning.analysis import summary
from continual_learning.analysis.curves import Curves
from continual_learning.paper.artifacts import Artifact
from continual_learning.paper.figures import theme
from continual_learning.paper.figures.curves import axis, panel
from continual_learning.paper.figures.theme import alt
from continual_learning.paper.figures.training import BANDS, LINES
from continual_learning.paper.figures.utilities import COLORS
from continual_learning.paper.remarks import left_out, of_metric, once, remarks, usable
from continual_learning.paper.runs import Runs, by_lane, by_value
from continual_learning.paper.tables.writers import shown

# From dark to light, distinct for every kind of color vision; the lightest is visible on white.
_SEQUENCE = ("#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#d2b21b")
_SYMBOLS = {"cpr.max_reset": "ρ", "cpr.sharpness": "κ", "rollout": "steps of a rollout"}


def curves(artifact: Artifact, folders: Sequence[str | Path]) -> theme.Drawn:
    """Draw curves over training, a line for each value."""
    found = by_value(artifact, folders)
    metric = _METRICS.get(artifact.id)
    y, form = axis(metric or next(iter(found.values())).spec.headline)
    lines = {
        _name(artifact, key, runs): runs.curve(metric or runs.metric) for key, runs in found.items()
    }
    color = theme.scale(_shades(list(lines)), "value", title=_title(artifact))
    first = next(iter(found.values()))
    chart = panel(first, lines, color, y=y, field="value", format=form)
    notes = [*_notes(artifact, found, lines), *([] if metric else of_metric(first.metric))]
    return theme.Drawn(chart, [*notes, LINES + BANDS], () if metric else first.returns)


def grid(artifact: Artifact, folders: Sequence[str | Path]) -> theme.Drawn:
    """Draw the average over the run against κ, a line for each shape."""
    found = by_value(artifact, folders)
    rows, lines = [], {}
    for shape, runs in found.items():
        for sharpness, part in by_lane(runs, "cpr.sharpness").items():
            kept = usable(each := part.curve(part.metric))
            lines[f"{shape}, κ {shown(sharpness)}"] = each
            if kept is not None:
                value, low, high = summary.ours(kept).average
                ends = theme.records(return_=[value], low=[low], high=[high])[0]
                rows.append({"shape": shape, "value": shown(sharpness), **ends})
    y, form = axis(next(iter(found.values())).spec.headline)
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("value:N", sort=None, title="κ", axis=alt.Axis(labelAngle=0, grid=False)),
        xOffset=alt.XOffset("shape:N", sort=list(COLORS)),
        color=theme.scale({name: COLORS[name] for name in found}, "shape"),
    )
    scale, ticks = alt.Scale(zero=False, padding=8), alt.Axis(format=form) if form else alt.Axis()
    middle = base.mark_line(point=True).encode(
        y=alt.Y("return_:Q", title=f"average {y}", scale=scale, axis=ticks)
    )
    bars = base.mark_rule(strokeWidth=1).encode(y=alt.Y("low:Q"), y2="high:Q")
    chart = (bars + middle).properties(width=theme.WIDTH - theme.AXIS, height=theme.HEIGHT)
    said = {shape: " ".join(remarks(runs, ("cpr",))) for shape, runs in found.items()}
    explained = "Points: IQM over seeds of each seed's average. Rules: 95 % bootstrap interval."
    return theme.Drawn(chart, [*once(said, "Each shape"), *left_out(lines), explained])


def points(artifact: Artifact, folders: Sequence[str | Path]) -> theme.Drawn:
    """Draw the average, final and peak return against the value."""
    found = by_value(artifact, folders)
    lines = {_name(artifact, key, runs): runs.curve(runs.metric) for key, runs in found.items()}
    rows = []
    for name, each in lines.items():
        kept = usable(each)
        if kept is not None:
            ours = summary.ours(kept)
            for what in _STATISTICS:
                value, low, high = getattr(ours, what)
                ends = theme.records(return_=[value], low=[low], high=[high])[0]
                rows.append({"value": name, "statistic": what, **ends})
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X(
            "value:N",
            sort=None,
            title=_title(artifact),
            axis=alt.Axis(labelAngle=0, grid=False),
        ),
        xOffset=alt.XOffset("statistic:N", sort=list(_STATISTICS)),
        color=theme.scale(_STATISTICS, "statistic"),
    )
    title, form = axis(next(iter(found.values())).spec.headline)
    ticks = alt.Axis(format=form) if form else alt.Axis()
    y = alt.Y("return_:Q", title=title, scale=alt.Scale(zero=False, padding=8), axis=ticks)
    bars = base.mark_rule(strokeWidth=1).encode(y=alt.Y("low:Q"), y2="high:Q")
    marks = base.mark_point(filled=True, opacity=1, size=30).encode(y=y)
    chart = (bars + marks).properties(width=theme.WIDTH - theme.AXIS, height=theme.HEIGHT)
    explained = "Points: IQM over seeds of each seed's average, last and highest value. "
    first = next(iter(found.values()))
    notes = [*_notes(artifact, found, lines), *of_metric(first.metric)]
    return theme.Drawn(
        chart, [*notes, explained + "Lines: 95 % bootstrap interval."], first.returns
    )


_STATISTICS = {"average": "#0072B2", "final": "#D55E00", "peak": "#009E73"}
_METRICS = {"big_dormant": "dormant_ratio", "big_linear": "linearized_ratio"}


def _name(artifact: Artifact, key: Any, runs: Runs) -> str:
    """Return a value as text; for a rollout, its steps in all environments."""
    if artifact.varied == "rollout":
        spec: Any = runs.spec
        return f"{key * spec.agent.environments:,}"
    return shown(key)


def _title(artifact: Artifact) -> str:
    return _SYMBOLS.get(artifact.varied or "", artifact.varied or "")


def _shades(names: list[str]) -> dict[str, str]:
    """Return a color for each value, in order, interpolated from the sequence."""
    ends = np.array([[int(color[i : i + 2], 16) for i in (1, 3, 5)] for color in _SEQUENCE])
    places = np.linspace(0, len(ends) - 1, len(names))
    mixed = [np.interp(places, range(len(ends)), ends[:, i]).round().astype(int) for i in range(3)]
    return {n: f"#{r:02x}{g:02x}{b:02x}" for n, r, g, b in zip(names, *mixed, strict=True)}


def _notes(artifact: Artifact, found: Mapping[Any, Runs], lines: Mapping[str, Curves]) -> list[str]:
    """Return the remarks on the runs; remarks that values share are given once."""
    method, title = artifact.studies[0].methods, _title(artifact)
    said = {
        f"{title} {name}": " ".join(remarks(runs, method, apart=artifact.varied))
        for name, runs in zip(lines, found.values(), strict=True)
    }
    return once(said, "Each value") + left_out(
        {f"{title} {name}": each for name, each in lines.items()}
    )
