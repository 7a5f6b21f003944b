"""Figures of how methods end: peak and final return, and how many seeds collapsed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from continual_learning.analysis import style, summary
from continual_learning.analysis.curves import Curves, main_metric
from continual_learning.analysis.figures import theme
from continual_learning.analysis.figures.theme import alt
from continual_learning.analysis.paper.artefacts import METHODS, Artefact
from continual_learning.analysis.paper.numbers import results
from continual_learning.analysis.paper.remarks import left_out, remarks, usable
from continual_learning.analysis.paper.runs import by_experiment
from continual_learning.diagnostics.collapse import collapsed

DROPS = (2_000, 4_000, 6_000, 8_000, 10_000)
SHARES = (0.25, 0.5, 0.75, 0.9)
SUSTAINED = 4_000_000
_ROW = 24  # points of a method
_BANDS = alt.Scale(paddingInner=0.25, paddingOuter=0.15)
_INTERVALS = (
    "Peak and final: highest and last value of the IQM over seeds, and the 25th to 75th "
    "percentile there. Grey: the paper's."
)


def peak_and_final(artefact: Artefact, folders: Sequence[str | Path]) -> Any:
    """Peak and final return of every method; of the flagship also how many seeds collapsed."""
    [(name, runs)] = by_experiment(artefact, folders).items()
    curves, paper = runs.curves(main_metric(runs.frame)), results(name)
    notes = [" ".join([*remarks(runs, METHODS, paper), *left_out(curves.values())]), _INTERVALS]
    if artefact.id != "flagship":
        return theme.finish(_peaks(curves, paper["rows"], theme.WIDTH), notes)
    left = _peaks(curves, paper["rows"], round(theme.WIDTH * 0.62))
    notes.append(
        "Collapse: at least 8,000 below the peak before, for at least 4M steps. "
        + _too_low(curves, 8_000)
    )
    return theme.finish(
        alt.hconcat(left, _collapses(curves), spacing=14).resolve_scale(color="independent"), notes
    )


def thresholds(artefact: Artefact, folders: Sequence[str | Path]) -> Any:
    """How many seeds collapsed, for other drops than the paper's."""
    [(_, runs)] = by_experiment(artefact, folders).items()
    curves = runs.curves(main_metric(runs.frame))
    absolute = _grid(curves, DROPS, False, "drop in return")
    relative = _grid(curves, SHARES, True, "drop as a share of what was gained")
    notes = [
        " ".join(remarks(runs, METHODS)),
        f"Seeds with a collapse: a drop from the peak before that lasts {SUSTAINED / 1e6:.0f}M "
        "steps. Gained: the peak minus the first value. " + _too_low(curves, max(DROPS)),
    ]
    return theme.finish(alt.hconcat(absolute, relative, spacing=14), notes)


def _peaks(curves: Mapping[str, Curves], paper: Mapping[str, Any], width: int) -> Any:
    rows: list[dict[str, Any]] = []

    def add(method: str, source: str, colour: str, peak: Any, final: Any) -> None:
        for what, (value, low, high) in (("peak", peak), ("final", final)):
            rows.append(
                {
                    "method": theme.label(method),
                    "source": source,
                    "colour": colour,
                    "what": what,
                    **theme.records(value=[value], low=[low], high=[high])[0],
                    "other": theme.records(x=[(final if what == "peak" else peak)[0]])[0]["x"],
                }
            )

    order = _order(curves, paper)
    colours = style.colours(order)
    for method in order:
        if (kept := usable(curves[method])) if method in curves else None:
            found = summary.as_published(kept)
            add(method, "ours", colours[method], found.peak, found.final)
        if method in paper:
            add(method, "paper", theme.FAINT, *(_interval(paper[method][s]) for s in _BOTH))
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y(
            "method:N",
            sort=[theme.label(method) for method in order],
            title=None,
            scale=_BANDS,
            axis=alt.Axis(grid=False, ticks=False, domain=False, labelFontSize=8),
        ),
        yOffset=alt.YOffset("source:N", sort=["ours", "paper"]),
        color=alt.Color("colour:N", scale=None),
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
        x=x, shape=shape, fill=alt.Fill("colour:N", scale=None)
    )
    plot = alt.layer(thick, thin, points)
    return plot.properties(width=width - 80, height=_ROW * len(order))


_BOTH = ("peak", "final")


def _collapses(curves: Mapping[str, Curves]) -> Any:
    """A bar for each method: seeds that collapsed."""
    order = _order(curves, ())
    colours = style.colours(order)
    count = {m: int(_fallen(curves[m], 8_000, False).sum()) for m in order}
    most = max((len(curves[m].seeds) for m in order), default=1)
    rows = [
        {
            "method": theme.label(m),
            "seeds": count[m],
            "colour": colours[m],
            "of": len(curves[m].seeds),
        }
        for m in order
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y(
            "method:N",
            sort=[theme.label(m) for m in order],
            title=None,
            scale=_BANDS,
            axis=alt.Axis(labels=False, ticks=False, domain=False, grid=False),
        ),
        x=alt.X(
            "seeds:Q",
            title="seeds that collapsed",
            scale=alt.Scale(domain=[0, most], nice=False),
            axis=alt.Axis(tickMinStep=1, format="d", tickCount=5),
        ),
    )
    bars = base.mark_bar(height=10).encode(color=alt.Color("colour:N", scale=None))
    text = base.mark_text(align="left", dx=3, fontSize=7, color=theme.INK).encode(text="seeds:Q")
    width = round(theme.WIDTH * 0.38) - 20
    return (bars + text).properties(width=width, height=_ROW * len(order))


def _grid(curves: Mapping[str, Curves], drops: Sequence[float], relative: bool, title: str) -> Any:
    """Numbers of seeds, method by drop, darker the more."""
    order = _order(curves, ())
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
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X(
            "drop:N",
            sort=None,
            title=title,
            axis=alt.Axis(labelAngle=0, ticks=False, domain=False),
        ),
        y=alt.Y(
            "method:N",
            sort=[theme.label(m) for m in order],
            title=None,
            axis=alt.Axis(
                labels=not relative, ticks=False, domain=False, labelFontSize=8, grid=False
            ),
        ),
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
    """Whether each seed collapsed; values that are missing neither begin nor end a collapse."""
    return collapsed(curves.steps, curves.values, drop=drop, sustained=SUSTAINED, relative=relative)


def _order(curves: Mapping[str, Curves], paper: Any) -> list[str]:
    """Methods as the paper's tables have them, then all others."""
    shown = [method for method in METHODS if method in curves or method in paper]
    return [*shown, *(method for method in curves if method not in shown)]


def _interval(numbers: Sequence[float]) -> tuple[float, float, float]:
    value, up, down = numbers
    return value, value - down, value + up


def _too_low(curves: Mapping[str, Curves], drop: float) -> str:
    """Says so where no return ever allows such a drop."""
    spans = [
        float(c.values[m].max() - c.values[m].min())
        for c in curves.values()
        if (m := ~_nan(c)).any()
    ]
    if max(spans, default=0.0) >= drop:
        return ""
    return f"No drop of {drop:,} is possible here: returns span {max(spans, default=0.0):,.0f}."


def _nan(curves: Curves) -> Any:
    return curves.values != curves.values
