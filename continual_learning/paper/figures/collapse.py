"""How many seeds of each method collapsed, and how that depends on the threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from continual_learning.analysis import style
from continual_learning.analysis.curves import Curves
from continual_learning.diagnostics.collapse import collapsed
from continual_learning.paper.artifacts import METHODS, Artifact
from continual_learning.paper.figures import theme
from continual_learning.paper.figures.theme import alt
from continual_learning.paper.remarks import of_metric, remarks
from continual_learning.paper.runs import by_experiment

DROP = 8_000  # as in the paper
DROPS = (2_000, 4_000, 6_000, 8_000, 10_000)
SHARES = (0.25, 0.5, 0.75, 0.9)
SUSTAINED = 4_000_000


def thresholds(artifact: Artifact, folders: Sequence[str | Path]) -> theme.Drawn:
    """Draw how many seeds collapsed, for the paper's threshold and for others."""
    [(_, runs)] = by_experiment(artifact, folders).items()
    curves = runs.curves(runs.metric)
    absolute = _grid(curves, DROPS, False, "drop in return")
    relative = _grid(curves, SHARES, True, "drop as a share of the peak")
    notes = [
        f"This study: {' '.join([*remarks(runs, METHODS), *of_metric(runs.metric)])}",
        f"Numbers of seeds with a collapse: a drop from the previous peak that lasts "
        f"{SUSTAINED / 1e6:.0f}M steps. The peak counts from 0, or from a negative first value. "
        + impossible(curves, max(DROPS)),
    ]
    return theme.Drawn(alt.hconcat(absolute, relative, spacing=14), notes, runs.returns)


def bars(curves: Mapping[str, Curves], order: Sequence[str]) -> Any:
    """Draw a bar for each method: the number of seeds that collapsed."""
    colors = style.colors(order)
    most = max(len(each.seeds) for each in curves.values())
    rows = [
        {
            "method": theme.label(method),
            "seeds": int(_fallen(each, DROP, False).sum()),
            "color": colors[method],
        }
        for method, each in curves.items()
    ]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=theme.method_rows(order, labels=False),
        x=alt.X(
            "seeds:Q",
            title="seeds that collapsed",
            scale=alt.Scale(domain=[0, most], nice=False),
            axis=alt.Axis(tickMinStep=1, format="d", tickCount=5),
        ),
    )
    bars = base.mark_bar(height=10).encode(color=alt.Color("color:N", scale=None))
    text = base.mark_text(align="left", dx=3, fontSize=7, color=theme.INK).encode(text="seeds:Q")
    width = round(theme.WIDTH * 0.38) - 20
    return (bars + text).properties(width=width, height=theme.ROW * len(order))


def _grid(curves: Mapping[str, Curves], drops: Sequence[float], relative: bool, title: str) -> Any:
    """Draw the numbers of seeds by method and drop, darker for larger numbers."""
    order = theme.in_order(curves)
    rows = []
    for method in order:
        for drop in drops:
            fallen = _fallen(curves[method], drop, relative)
            rows.append(
                {
                    "method": theme.label(method),
                    "drop": f"{drop:.0%}" if relative else f"{drop:,}",
                    "seeds": int(fallen.sum()),
                    "share": round(float(fallen.mean()), 4),
                }
            )
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X(
            "drop:N",
            sort=None,
            title=title,
            axis=alt.Axis(labelAngle=0, ticks=False, domain=False),
        ),
        y=theme.method_rows(order, labels=not relative, padding=0.0),
    )
    shade = alt.Color(
        "share:Q", scale=alt.Scale(domain=[0, 1], range=["#f3f6fa", "#08306b"]), legend=None
    )
    cells = base.mark_rect(stroke="white", strokeWidth=1.5).encode(color=shade)
    ink = alt.condition("datum.share > 0.4", alt.value("white"), alt.value(theme.INK))
    text = base.mark_text(fontSize=8).encode(text="seeds:Q", color=ink)
    width = (theme.WIDTH - 90) // 2
    return (cells + text).properties(width=width, height=20 * len(order))


def _fallen(curves: Curves, drop: float, relative: bool) -> Any:
    """Return whether seeds collapsed [seeds]; missing values neither begin nor end a collapse."""
    return collapsed(curves.steps, curves.values, drop=drop, sustained=SUSTAINED, relative=relative)


def impossible(curves: Mapping[str, Curves], drop: float) -> str:
    """Return a sentence if no return allows such a drop, else an empty text."""
    spans = [
        float(np.ptp(each.values[~np.isnan(each.values)]))
        for each in curves.values()
        if not np.isnan(each.values).all()
    ]
    if not spans:
        return "No return was measured."
    if max(spans) >= drop:
        return ""
    return f"No drop of {drop:,} is possible here: returns span {max(spans):,.0f}."
