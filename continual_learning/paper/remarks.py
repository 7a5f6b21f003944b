"""Remarks beside the numbers of studies: their length, their seeds, and what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from continual_learning.analysis import style
from continual_learning.analysis.curves import Curves
from continual_learning.paper.artifacts import Artifact, setting
from continual_learning.paper.kept import FILE, is_kept
from continual_learning.paper.runs import Runs

AS_PUBLISHED = (
    "Paper and as published: the IQM over seeds in every bin (its average over bins, last bin and "
    "highest bin), with the distances to the 25th and 75th percentile."
)
_EPISODES = {
    "latest_return": "latest_return: the mean return of the last completed episode of every "
    "environment.",
    "episode_return": "episode_return, as in the paper: the mean return of the episodes that "
    "ended, in which short episodes count more often.",
    "success": "success: the share of training episodes that ended with the task solved.",
    "eval_seen": (
        "eval_seen: the return of deterministic episodes on every task met so far, averaged over "
        "these tasks. The paper does not say whether its numbers come from training or from such "
        "an evaluation."
    ),
    "eval_seen_success": (
        "eval_seen_success: the share of deterministic episodes that ended with the task solved, "
        "averaged over all tasks met so far. The paper does not say whether its numbers come from "
        "training or from such an evaluation; the latter is more plausible."
    ),
    "published_return": (
        "published_return: the returns that the paper's trainer would log in this training. Its "
        "evaluations restart the environments every 10,000 steps, so that parts of several "
        "episodes add up to one return."
    ),
}
OURS = (
    "IQM of seeds: the IQM over seeds of each seed's average, last and highest bin, with its 95 % "
    "bootstrap interval."
)


def usable(curves: Curves) -> Curves | None:
    """Return the points that every seed has; None if there are none."""
    kept = curves.common()
    return kept if kept.values.size else None


def million(steps: float) -> str:
    """Return a number of steps as text: 400M, 29.5M or 6,144."""
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
    """Return what a reader of the numbers must know about the runs, in sentences.

    Args:
      runs: the studies.
      shown: the methods that are expected.
      paper: `seeds` and `steps` of the paper's study.
      apart: a field whose value the reader knows already.
    """
    found = [_size(runs, paper or {}), *_unfinished(runs), *_absent(runs, shown)]
    unusual = {name: both for folder in runs.folders for name, both in folder.unusual().items()}
    own = [
        f"{name} = {setting(a)} (not {setting(b)})"
        for name, (a, b) in unusual.items()
        if name != apart
    ]
    if any(map(is_kept, (folder.path for folder in runs.folders))):
        found.append(
            f"The numbers come from {FILE}, means of bins; README.md beside it describes the runs."
        )
    return [*found, *([f"Its settings differ: {', '.join(own)}."] if own else [])]


def once(notes: Mapping[str, str], all_of_them: str) -> list[str]:
    """Return notes {name: note} as sentences; a note that names share is given once."""
    names: dict[str, list[str]] = {}
    for name, note in notes.items():
        names.setdefault(note, []).append(name)
    if len(names) == 1:
        return [f"{all_of_them}: {note}" for note in names]
    return [f"{', '.join(each)}: {note}" for note, each in names.items()]


def single_tasks(artifact: Artifact, found: Mapping[str, Runs]) -> list[str]:
    """Return the remarks on studies {task: runs} of single tasks, and the tasks not run."""
    methods, usual = artifact.studies[0].methods, artifact.studies[0].spec()
    paper = {"seeds": usual.seeds, "steps": usual.steps}
    said = {
        task: " ".join(remarks(runs, methods, paper, apart=artifact.varied))
        for task, runs in found.items()
    }
    absent = [task for study in artifact.studies for task in study.spec().task_names]
    absent = [task for task in absent if task not in found]
    return once(said, "Each task") + ([f"Not run: {', '.join(absent)}."] if absent else [])


def of_metric(metric: str) -> list[str]:
    """Return which episodes a metric describes; nothing if it does not describe episodes."""
    return [_EPISODES[metric]] if metric in _EPISODES else []


def binned(runs: Runs) -> list[str]:
    """Return how wide the bins of curves are; nothing if rows are not binned."""
    return [] if runs.width is None else [f"Bins of {runs.width:,} {_unit(runs)}."]


def left_out(curves: Mapping[str, Curves]) -> list[str]:
    """Return how many points of {name: curves} are left out, since a seed has no value there."""
    found = []
    for name, each in curves.items():
        lost = each.values.shape[1] - each.common().values.shape[1]
        if lost:
            found.append(f"{style.name(name)} {lost} of {each.values.shape[1]}")
    if not found:
        return []
    return [f"Points left out, since a seed has no value there: {', '.join(found)}."]


def _size(runs: Runs, paper: Mapping[str, Any]) -> str:
    """Return the numbers of seeds and steps, the paper's, and whether ours are smaller."""
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
        "Their numbers cover the steps that all their seeds have."
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
