"""The choice of the best settings of a sweep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from continual_learning.analysis import statistics
from continual_learning.analysis.curves import CurvesError, main_metric, metrics
from continual_learning.analysis.loading import load
from continual_learning.schema.errors import StudyError, unknown
from continual_learning.studies import spec
from continual_learning.studies.experiment import Experiment
from continual_learning.studies.folder import open_study
from continual_learning.studies.store.files import write_file
from continual_learning.studies.store.parts import HYPER
from continual_learning.studies.study import Study
from continual_learning.sweeps.grid import Configuration, apply, text_of
from continual_learning.sweeps.lanes import configurations, point
from continual_learning.sweeps.sweep import Sweep


class Final(NamedTuple):
    """The final result of a run of a sweep.

    Attributes:
      configuration: its settings.
      seed: its seed.
      score: its final performance; NaN if it diverged.
      rows: all measurements of the last task, as bytes.
    """

    configuration: Configuration
    seed: int
    score: float
    rows: bytes


class Ranked(NamedTuple):
    """A configuration and its final performance.

    Attributes:
      configuration: the settings.
      scores: [seeds], the final performance of every seed.
      mean: the mean of the scores; −∞ if a seed diverged, so that it is not chosen.
      rows: all measurements of the last task of every seed, as bytes.
    """

    configuration: Configuration
    scores: np.ndarray
    mean: float
    rows: tuple[bytes, ...] = ()


class Ranking(NamedTuple):
    """The ranking of a sweep's configurations.

    Attributes:
      metric: the metric of the ranking.
      best: the configurations, highest mean first; equals are in the order of the grid.
      behind: the configurations that have not finished with all seeds.
    """

    metric: str
    best: list[Ranked]
    behind: list[Configuration]

    @property
    def undecided(self) -> bool:
        """Whether all of several configurations gave identical rows, so that none is the best."""
        rows = {each.rows for each in self.best}
        return len(self.best) > 1 and len(rows) == 1 and all(rows)


def rank(
    sweep: Sweep,
    candidates: Sequence[Configuration],
    folders: Iterable[Path],
    *,
    metric: str | None = None,
    steps: int | None = None,
) -> Ranking:
    """Return configurations by their mean final performance over seeds.

    Final performance is the mean of the metric over the rows of the last task, as in the last point
    of curves in bins of a task. Rows without the metric (NaN) are left out. A run has diverged if
    the metric is infinite, or was never measured, in the last task.

    Args:
      sweep: the sweep.
      candidates: the configurations to rank, in order.
      folders: the folders of the studies that ran them.
      metric: the metric that replaces the sweep's.
      steps: the steps after which runs are compared, if not at their end; the last task is then the
        current one.
    """
    metric, found = metric or sweep.metric, {}
    for folder in folders:
        if any((folder / "metrics").rglob("*.parquet")):
            metric, finals = _finals(folder, sweep, metric, steps)
            for final in finals:
                found.setdefault(point(final.configuration), {})[final.seed] = final
    if metric is None:
        raise StudyError("There are no rows yet: resume the sweep.")
    best, behind = [], []
    for configuration in candidates:
        finals = found.get(point(configuration), {})
        if set(finals) < set(sweep.seeds):
            behind.append(configuration)
            continue
        values = np.array([finals[seed].score for seed in sweep.seeds])
        mean = float(values.mean()) if np.isfinite(values).all() else -np.inf
        rows = tuple(finals[seed].rows for seed in sweep.seeds)
        best.append(Ranked(configuration, values, mean, rows))
    best.sort(key=lambda each: -each.mean)  # stable: equals keep the order of the grid
    return Ranking(metric, best, behind)


def describe(ranking: Ranking, most: int = 10) -> str:
    """Return the best configurations as a table."""
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
    lines += _identical(ranking)
    if ranking.behind:
        lines.append(f"{len(ranking.behind)} have not come to their end and are not ranked.")
    return "\n".join(lines)


def _identical(ranking: Ranking) -> list[str]:
    """Return sentences about settings that gave identical rows in all seeds and metrics."""
    places: dict[tuple[bytes, ...], list[str]] = {}
    for place, each in enumerate(ranking.best, 1):
        if each.rows:
            places.setdefault(each.rows, []).append(str(place))
    alike = [group for group in places.values() if len(group) > 1]
    if not alike:
        return []
    if ranking.undecided:
        said = "All settings gave identical rows: they made no difference, so none is the best."
    else:
        groups = "; ".join(", ".join(group) for group in alike)
        said = f"Places with identical rows, where the settings made no difference: {groups}."
    return [f"{said} If no reset was due, run for longer or reset more often."]


def best(sweep: Sweep, ranking: Ranking) -> Experiment:
    """Return the reported experiment with the best settings."""
    if not ranking.best or not np.isfinite(ranking.best[0].mean):
        raise StudyError("No configuration ended without diverging: there is nothing to choose.")
    return apply(sweep.reported, sweep.method, ranking.best[0].configuration)


def write_best(path: Path, sweep: Sweep, ranking: Ranking) -> None:
    """Write the reported experiment with the best settings, as a file for `continual run`.

    Args:
      path: the file.
      sweep: the sweep.
      ranking: the ranking of its configurations.
    """
    chosen = best(sweep, ranking)
    first = ranking.best[0]
    settings = ", ".join(f"{name} = {text_of(v)}" for name, v in first.configuration.items())
    lines = [
        f"# {sweep.method}: {settings}, chosen by `continual sweep`",
        f"# from a grid of {len(sweep.grid)}: final {ranking.metric} {first.mean:.5g},",
        f"# mean over seeds {', '.join(map(str, sweep.seeds))}. Report other seeds than these.",
    ]
    write_file(path, "\n".join([*lines, spec.dumps(chosen)]).encode())


def _finals(
    folder: Path, sweep: Sweep, metric: str | None, steps: int | None
) -> tuple[str, Iterator[Final]]:
    """Return the metric, and the finished runs of a study."""
    study = open_study(folder).study
    frame, end = load(folder), study.experiment.steps if steps is None else steps
    if metric is None:
        try:
            metric = main_metric(frame)
        except CurvesError as error:
            raise StudyError(f"{folder}: {error}") from None
    if metric not in metrics(frame):
        raise unknown("metric", metric, metrics(frame))
    hyper = [f"{HYPER}{name}" for name in study.hyper]
    last = (end - 1) // study.experiment.steps_per_task
    rows: Any = frame[(frame.step <= end) & (frame.task == last)]
    lanes = rows.groupby([*hyper, "seed"])
    ended = lanes["step"].max() == end
    with np.errstate(invalid="ignore"):  # ∞ − ∞
        means = lanes[metric].mean()[ended]
    measured: Any = rows.drop(columns=["method", *hyper, "seed"]).select_dtypes("number")
    told = {_key(lane): measured.loc[at].to_numpy().tobytes() for lane, at in lanes.groups.items()}
    scores = {_key(lane): float(mean) for lane, mean in means.items()}
    return metric, _lanes(study, sweep, scores, told)


def _lanes(
    study: Study,
    sweep: Sweep,
    scores: dict[tuple[float, ...], float],
    rows: dict[tuple[float, ...], bytes],
) -> Iterator[Final]:
    arrays, settings = study.arrays(), configurations(study, list(sweep.grid.values))
    for i, seed in enumerate(study.seeds):
        key = (*(values[i].item() for values in arrays.values()), seed)
        if key in scores:
            score = scores[key] if np.isfinite(scores[key]) else np.nan
            yield Final(settings[i], seed, score, rows[key])


def _key(lane: object) -> tuple[float, ...]:
    values = lane if isinstance(lane, tuple) else (lane,)
    return tuple(np.asarray(value).item() for value in values)
