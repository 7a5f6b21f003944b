"""What must be said of studies beside their numbers: how long, how many seeds, what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from continual_learning.analysis import style
from continual_learning.analysis.curves import Curves
from continual_learning.analysis.paper.runs import Runs

AS_PUBLISHED = (
    "Paper and as published: IQM over seeds in every bin, with the distances to the 25th and 75th "
    "percentile; average over bins, last bin, highest bin."
)
_RETURNS = {
    "latest_return": "Return: of the last episode of every environment.",
    "episode_return": "Return: of the episodes that ended, so that short ones count more often.",
    "success": "Success: share of the episodes that ended which were solved at their end.",
}
OURS = (
    "IQM of seeds: of each seed's average, last and highest bin, with the 95 % bootstrap interval."
)


def usable(curves: Curves) -> Curves | None:
    """The points that every seed has; None if there are none."""
    kept = curves.common()
    return kept if kept.values.size else None


def million(steps: float) -> str:
    """400M, 29.5M or 6,144."""
    if steps < 1e6:
        return f"{steps:,.0f}"
    return f"{steps / 1e6:.1f}".removesuffix(".0") + "M" if steps < 1e8 else f"{steps / 1e6:.0f}M"


def remarks(
    runs: Runs,
    shown: Iterable[str],
    paper: Mapping[str, Any] | None = None,
    *,
    apart: str | None = None,
) -> list[str]:
    """What a reader of the numbers must know of the runs.

    Args:
      runs: the studies.
      shown: the methods that are expected to be there.
      paper: `seeds` and `steps` of the paper's study.
      apart: a field that the reader knows of.
    """
    found = [_size(runs, paper or {}), *_unfinished(runs), *_absent(runs, shown)]
    unusual = {name: both for folder in runs.folders for name, both in folder.unusual().items()}
    text = [
        f"{name} = {_text(a)} (not {_text(b)})" for name, (a, b) in unusual.items() if name != apart
    ]
    return [*found, *([f"Settings of its own: {', '.join(text)}."] if text else [])]


def _text(value: Any) -> str:
    """A setting as the command line takes it."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def of_return(runs: Runs, metric: str | None = None) -> list[str]:
    """Of which episodes the return is, or another metric; nothing where it is of none."""
    name = metric or runs.metric
    return [_RETURNS[name]] if name in _RETURNS else []


def of_evaluation(metric: str) -> str:
    """What an evaluation measures."""
    what = "share that is solved at the end" if metric.endswith("success") else "return"
    return (
        f"Evaluated: the {what} of deterministic episodes on every task met so far, mean over "
        f"these tasks (`{metric}`). The paper does not say whether its numbers are of training or "
        "of such an evaluation."
    )


def left_out(curves: Mapping[str, Curves]) -> list[str]:
    """Which points are in no statistic, since a seed has no value there, by name of the curves."""
    found = []
    for name, each in curves.items():
        lost = each.values.shape[1] - each.common().values.shape[1]
        if lost:
            found.append(f"{style.name(name)} {lost} of {each.values.shape[1]}")
    if not found:
        return []
    return [f"Points left out, since a seed has no value there: {', '.join(found)}."]


def _size(runs: Runs, paper: Mapping[str, Any]) -> str:
    """How many seeds and steps; the paper's beside them, and whether these are fewer."""
    steps = runs.spec.steps
    frame: Any = runs.frame
    counts = frame.groupby("method")["seed"].nunique()
    low, high = int(counts.min()), int(counts.max())
    seeds = f"{low} seeds" if low == high else f"{low} to {high} seeds"
    unit = "updates" if runs.spec.kind == "supervised" else "environment steps"
    text = f"{seeds} of {million(steps)} {unit}."
    if paper.get("steps") and paper.get("seeds"):
        text += f" The paper: {paper['seeds']} seeds of {million(paper['steps'])}."
        fewer = [f"{million(steps)} of {million(paper['steps'])} steps"] * (steps < paper["steps"])
        fewer += [f"{low} of {paper['seeds']} seeds"] * (low < paper["seeds"])
        if fewer:
            text += f" Smaller than the paper's: {', '.join(fewer)}."
    return text


def _unfinished(runs: Runs) -> list[str]:
    frame: Any = runs.frame
    reached, behind = frame.groupby(["method", "seed"])["step"].max(), []
    for method in style.colours(frame["method"].unique()):
        low, high = int(reached[method].min()), int(reached[method].max())
        if low < runs.spec.steps:
            until = million(low) if low == high else f"{million(low)} to {million(high)}"
            behind.append(f"{style.name(method)} ({until})")
    if not behind:
        return []
    return [
        f"Unfinished, of {million(runs.spec.steps)} steps: {', '.join(behind)}. "
        "Their numbers are of the steps that all their seeds have."
    ]


def _absent(runs: Runs, shown: Iterable[str]) -> list[str]:
    here = set(runs.frame["method"].unique())
    planned = {method for folder in runs.folders for method in folder.methods}
    found = []
    for text, names in (
        ("Not begun", [method for method in style.colours(planned) if method not in here]),
        ("Not in this study", [method for method in shown if method not in planned]),
    ):
        if names:
            found.append(f"{text}: {', '.join(map(style.name, names))}.")
    return found
