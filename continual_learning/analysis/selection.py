"""Which settings of a sweep are best."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from continual_learning.analysis import statistics
from continual_learning.analysis.curves import CurvesError, main_metric
from continual_learning.analysis.loading import load
from continual_learning.experiments import spec
from continual_learning.experiments.base import trusted
from continual_learning.experiments.errors import StudyError, unknown
from continual_learning.experiments.storage import manifest
from continual_learning.experiments.storage.files import write_file
from continual_learning.experiments.storage.parts import HYPER
from continual_learning.experiments.study import Study
from continual_learning.experiments.sweeps.grid import Configuration, apply, text_of
from continual_learning.experiments.sweeps.lanes import configurations, point
from continual_learning.experiments.sweeps.sweep import Sweep


class Final(NamedTuple):
    """How a run of a sweep ended.

    Attributes:
      configuration: its settings.
      seed: its seed.
      score: final performance; NaN if it diverged.
    """

    configuration: Configuration
    seed: int
    score: float


class Ranked(NamedTuple):
    """A configuration and its final performance.

    Attributes:
      configuration: the settings.
      scores: [seeds].
      mean: of the scores; −∞ if a seed diverged, which no choice should risk.
    """

    configuration: Configuration
    scores: np.ndarray
    mean: float


class Ranking(NamedTuple):
    """All that is known of a sweep's configurations.

    Attributes:
      metric: what is ranked.
      best: the highest mean first; of equals, the first of the grid.
      behind: configurations that have not come to their end with all seeds.
    """

    metric: str
    best: list[Ranked]
    behind: list[Configuration]


def rank(
    sweep: Sweep,
    candidates: Sequence[Configuration],
    folders: Iterable[Path],
    *,
    metric: str | None = None,
    steps: int | None = None,
) -> Ranking:
    """Configurations by their mean final performance over seeds.

    Final performance is the mean of the metric over the rows of the last task, as the last point
    of curves in bins of a task. Rows in which it was not measured (NaN) are left out; a run in
    which it is infinite, or was never measured there, has diverged.

    Args:
      sweep: what was run.
      candidates: which configurations to rank, in order.
      folders: of the studies that ran them.
      metric: in place of the sweep's.
      steps: where runs are looked at, if not at their end: the last task is the one under way.
    """
    metric, found = metric or sweep.metric, {}
    for folder in folders:
        if any((folder / "metrics").rglob("*.parquet")):
            metric, finals = _finals(folder, sweep, metric, steps)
            for configuration, seed, score in finals:
                found.setdefault(point(configuration), {})[seed] = score
    if metric is None:
        raise StudyError("There are no rows yet: go on with the sweep.")
    best, behind = [], []
    for configuration in candidates:
        scores = found.get(point(configuration), {})
        if set(scores) < set(sweep.seeds):
            behind.append(configuration)
            continue
        values = np.array([scores[seed] for seed in sweep.seeds])
        mean = float(values.mean()) if np.isfinite(values).all() else -np.inf
        best.append(Ranked(configuration, values, mean))
    best.sort(key=lambda each: -each.mean)  # stable: equals stay in the order of the grid
    return Ranking(metric, best, behind)


def describe(ranking: Ranking, most: int = 10) -> str:
    """The best configurations as a table."""
    settings = list(ranking.best[0].configuration) if ranking.best else []
    rows = [["", *settings, "mean", "IQM", "lowest", "highest", "seeds"]]
    for place, each in enumerate(ranking.best[:most], 1):
        values = [text_of(each.configuration[name]) for name in settings]
        if np.isfinite(each.mean):
            numbers = (each.mean, statistics.iqm(each.scores), each.scores.min(), each.scores.max())
            told = [f"{number:.5g}" for number in numbers]
        else:
            told = ["diverged", "", "", ""]
        rows.append([str(place), *values, *told, str(len(each.scores))])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [f"Final {ranking.metric}, mean over the last task:"]
    lines += ["  ".join(map(str.rjust, row, widths)).rstrip() for row in rows]
    if len(ranking.best) > most:
        lines.append(f"… and {len(ranking.best) - most} more.")
    diverged = sum(not np.isfinite(each.mean) for each in ranking.best)
    if diverged:
        lines.append(f"{diverged} diverged with at least one seed and count as the worst.")
    if ranking.behind:
        lines.append(f"{len(ranking.behind)} have not come to their end and are not ranked.")
    return "\n".join(lines)


def best(sweep: Sweep, ranking: Ranking) -> spec.ExperimentSpec:
    """What is to be reported, with the best settings."""
    if not ranking.best or not np.isfinite(ranking.best[0].mean):
        raise StudyError("No configuration came to its end without diverging: nothing to choose.")
    return apply(sweep.reported, sweep.method, ranking.best[0].configuration)


def write_best(path: Path, sweep: Sweep, ranking: Ranking) -> None:
    """Writes what is to be reported as a file for `continual run`, and why these settings."""
    chosen = best(sweep, ranking)
    first = ranking.best[0]
    settings = ", ".join(f"{name} = {text_of(v)}" for name, v in first.configuration.items())
    lines = [
        f"# {sweep.method}: {settings}, chosen by `continual sweep` from {len(ranking.best)}",
        f"# configurations: final {ranking.metric} {first.mean:.5g}, mean over seeds "
        f"{', '.join(map(str, sweep.seeds))}.",
        "# Report other seeds than these.",
    ]
    write_file(path, "\n".join([*lines, spec.dumps(chosen)]).encode())


def _finals(
    folder: Path, sweep: Sweep, metric: str | None, steps: int | None
) -> tuple[str, Iterator[Final]]:
    """The metric, and the runs of a study that have come to their end."""
    with trusted():
        study = Study.from_dict(manifest.read(folder)[0])
    frame, end = load(folder), study.experiment.steps if steps is None else steps
    if metric is None:
        try:
            metric = main_metric(frame)
        except CurvesError as error:
            raise StudyError(f"{folder}: {error}") from None
    if metric not in frame:
        raise unknown("metric", metric, [str(name) for name in frame if name != "method"])
    hyper = [f"{HYPER}{name}" for name in study.hyper]
    last = (end - 1) // study.experiment.steps_per_task
    rows: Any = frame[(frame.step <= end) & (frame.task == last)]
    lanes = rows.groupby([*hyper, "seed"])
    ended = lanes["step"].max() == end
    with np.errstate(invalid="ignore"):  # ∞ − ∞
        means = lanes[metric].mean()[ended]
    scores = {_key(lane): float(mean) for lane, mean in means.items()}
    return metric, _lanes(study, sweep, scores)


def _lanes(study: Study, sweep: Sweep, scores: dict[tuple[float, ...], float]) -> Iterator[Final]:
    arrays, settings = study.arrays(), configurations(study, list(sweep.grid.values))
    for i, seed in enumerate(study.seeds):
        key = (*(values[i].item() for values in arrays.values()), seed)
        if key in scores:
            yield Final(settings[i], seed, scores[key] if np.isfinite(scores[key]) else np.nan)


def _key(lane: object) -> tuple[float, ...]:
    values = lane if isinstance(lane, tuple) else (lane,)
    return tuple(np.asarray(value).item() for value in values)
