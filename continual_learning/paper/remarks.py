"""What must be said of studies beside their numbers: how long, how many seeds, what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from continual_learning.analysis import style
from continual_learning.analysis.curves import Curves
from continual_learning.paper.artefacts import Artefact, setting
from continual_learning.paper.kept import FILE, is_kept
from continual_learning.paper.runs import Runs

AS_PUBLISHED = (
    "Paper and as published: IQM over seeds in every bin, with the distances to the 25th and 75th "
    "percentile; average over bins, last bin, highest bin."
)
_EPISODES = {
    "latest_return": "latest_return: of the episode that each environment ended last.",
    "episode_return": "episode_return, as in the paper: of the episodes that ended, so that short "
    "ones count more often.",
    "success": "success: share of the training episodes that ended with the task solved.",
    "eval_seen": (
        "eval_seen: the return of deterministic episodes on every task met so far, mean over these "
        "tasks. The paper does not say whether its numbers are of training or of such an "
        "evaluation."
    ),
    "eval_seen_success": (
        "eval_seen_success: share of deterministic episodes that ended with the task solved, on "
        "every task met so far, mean over these tasks. The paper does not say whether its numbers "
        "are of training or of such an evaluation; the latter is more plausible."
    ),
    "published_return": (
        "published_return: the returns that the paper's trainer would log in this training, in "
        "which evaluations restart the environments every 10,000 steps and parts of several "
        "episodes add up."
    ),
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
    own = [
        f"{name} = {setting(a)} (not {setting(b)})"
        for name, (a, b) in unusual.items()
        if name != apart
    ]
    if any(map(is_kept, (folder.path for folder in runs.folders))):
        found.append(f"Of {FILE}, means of bins; README.md there says how the runs were made.")
    return [*found, *([f"Settings of its own: {', '.join(own)}."] if own else [])]


def once(notes: Mapping[str, str], all_of_them: str) -> list[str]:
    """Notes by name as sentences, each with the names that it is the same of."""
    names: dict[str, list[str]] = {}
    for name, note in notes.items():
        names.setdefault(note, []).append(name)
    if len(names) == 1:
        return [f"{all_of_them}: {note}" for note in names]
    return [f"{', '.join(each)}: {note}" for note, each in names.items()]


def single_tasks(artefact: Artefact, found: Mapping[str, Runs]) -> list[str]:
    """Of studies of one task each, by task: what must be said of them, and which are not there."""
    methods, usual = artefact.studies[0].methods, artefact.studies[0].spec()
    paper = {"seeds": usual.seeds, "steps": usual.steps}
    said = {
        task: " ".join(remarks(runs, methods, paper, apart=artefact.varied))
        for task, runs in found.items()
    }
    absent = [task for study in artefact.studies for task in study.spec().task_names]
    absent = [task for task in absent if task not in found]
    return once(said, "Each task") + ([f"Not run: {', '.join(absent)}."] if absent else [])


def of_metric(metric: str) -> list[str]:
    """Of which episodes a metric is; nothing where it is not of episodes."""
    return [_EPISODES[metric]] if metric in _EPISODES else []


def binned(runs: Runs) -> list[str]:
    """How wide the bins of curves are; nothing where they are the rows."""
    return [] if runs.width is None else [f"Bins of {runs.width:,} {_unit(runs)}."]


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
    text = f"{seeds} of {million(steps)} {_unit(runs)}."
    if paper.get("steps") and paper.get("seeds"):
        text += f" The paper: {paper['seeds']} seeds of {million(paper['steps'])}."
        fewer = [f"{million(steps)} of {million(paper['steps'])} steps"] * (steps < paper["steps"])
        fewer += [f"{low} of {paper['seeds']} seeds"] * (low < paper["seeds"])
        if fewer:
            text += f" Smaller than the paper's: {', '.join(fewer)}."
    return text


def _unit(runs: Runs) -> str:
    return runs.spec.step_unit


def _unfinished(runs: Runs) -> list[str]:
    frame: Any = runs.frame
    reached, behind = frame.groupby(["method", "seed"])["step"].max(), []
    for method in style.colors(frame["method"].unique()):
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
        ("Not begun", [method for method in style.colors(planned) if method not in here]),
        ("Not in this study", [method for method in shown if method not in planned]),
    ):
        if names:
            found.append(f"{text}: {', '.join(map(style.name, names))}.")
    return found
