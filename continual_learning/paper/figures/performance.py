"""Figures of peak and final return, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from continual_learning.analysis import style, summary
from continual_learning.analysis.curves import Curves
from continual_learning.paper.artifacts import METHODS, Artifact
from continual_learning.paper.figures import collapse, theme
from continual_learning.paper.figures.theme import alt
from continual_learning.paper.numbers import results
from continual_learning.paper.remarks import left_out, of_metric, remarks, usable
from continual_learning.paper.runs import by_experiment

_BOTH = ("peak", "final")
_INTERVALS = (
    "Peak and final: the highest and the last value of the IQM over seeds, with the 25th to 75th "
    "percentile at that step. Gray: the paper's values."
)


def peak_and_final(artifact: Artifact, folders: Sequence[str | Path]) -> theme.Drawn:
    """Draw every method's peak and final return; the flagship also shows collapsed seeds."""
    [(name, runs)] = by_experiment(artifact, folders).items()
    curves, paper = runs.curves(runs.metric), results(name)
    order = theme.in_order([*paper["rows"], *curves])
    said = [*remarks(runs, METHODS, paper), *of_metric(runs.metric), *left_out(curves)]
    notes = [f"This study: {' '.join(said)}", _INTERVALS]
    if artifact.id != "flagship":
        plot = _peaks(curves, paper["rows"], order, theme.WIDTH)
        return theme.Drawn(plot, notes, runs.returns)
    left = _peaks(curves, paper["rows"], order, round(theme.WIDTH * 0.62))
    notes.append(
        "Collapse: a return at least 8,000 below the previous peak for at least 4M steps. "
        + collapse.impossible(curves, 8_000)
    )
    both = alt.hconcat(left, collapse.bars(curves, order), spacing=14)
    return theme.Drawn(both.resolve_scale(color="independent"), notes, runs.returns)


def _peaks(
    curves: Mapping[str, Curves], paper: Mapping[str, Any], order: Sequence[str], width: int
) -> Any:
    """Draw a row for each method: peak and final with intervals, the paper's below ours."""
    rows: list[dict[str, Any]] = []

    def add(method: str, source: str, color: str, peak: Any, final: Any) -> None:
        for what, (value, low, high) in (("peak", peak), ("final", final)):
            rows.append(
                {
                    "method": theme.label(method),
                    "source": source,
                    "color": color,
                    "what": what,
                    **theme.records(value=[value], low=[low], high=[high])[0],
                    "other": theme.records(x=[(final if what == "peak" else peak)[0]])[0]["x"],
                }
            )

    colors = style.colors(order)
    for method in order:
        kept = usable(curves[method]) if method in curves else None
        if kept is not None:
            found = summary.as_published(kept)
            add(method, "ours", colors[method], found.peak, found.final)
        if method in paper:
            add(method, "paper", theme.FAINT, *(_interval(paper[method][s]) for s in _BOTH))
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=theme.method_rows(order),
        yOffset=alt.YOffset("source:N", sort=["ours", "paper"]),
        color=alt.Color("color:N", scale=None),
    )
    x = alt.X(
        "value:Q",
        title="episodic return",
        scale=alt.Scale(padding=6),
        axis=alt.Axis(tickCount=5),
    )
    shape = alt.Shape(
        "what:N",
        scale=alt.Scale(domain=list(_BOTH), range=["triangle-right", "circle"]),
        legend=alt.Legend(symbolFillColor=theme.INK, symbolStrokeColor=theme.INK, symbolSize=40),
    )
    thick = base.mark_rule(strokeWidth=3.5, opacity=0.3).encode(x=alt.X("low:Q"), x2="high:Q")
    thin = base.mark_rule(strokeWidth=0.8).encode(x=x, x2="other:Q")
    points = base.mark_point(filled=True, opacity=1, size=34).encode(
        x=x, shape=shape, fill=alt.Fill("color:N", scale=None)
    )
    plot = alt.layer(thick, thin, points)
    return plot.properties(width=width - 80, height=theme.ROW * len(order))


def _interval(numbers: Sequence[float]) -> tuple[float, float, float]:
    value, up, down = numbers
    return value, value - down, value + up
