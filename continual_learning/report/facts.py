"""The numbers of a section: how well methods do, whether they collapse, and what they lose."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from continual_learning.analysis import statistics
from continual_learning.analysis.adaptation import Adaptation, adaptation
from continual_learning.analysis.curves import RETURNS, Curves, curves
from continual_learning.analysis.summary import Estimate, Summary, as_published, ours
from continual_learning.diagnostics.collapse import Collapse, collapses
from continual_learning.diagnostics.metrics import metric
from continual_learning.report.series import PAPER_BIN, Rows, values_of
from continual_learning.report.studies import Section, fields_of
from continual_learning.schema.errors import StudyError
from continual_learning.studies.early_stopping import CollapseRule, read
from continual_learning.studies.store.parts import HYPER

SUSTAINED = 4_000_000
DROPS = (8000.0, 4000.0, 10000.0)
"""The paper's drop in return that counts as a collapse, and two others for comparison."""

RELATIVE = 0.8
"""The loss of this share of the highest return is a collapse too, on any scale of returns."""

WINDOW = 5
"""How many tasks "first" and "last" average over; with fewer than 20 tasks, a quarter of them."""


class Rule(NamedTuple):
    """A definition of collapse.

    Attributes:
      name: its name in the head of a table.
      text: its definition in a sentence.
      find: a function from curves to the collapses of their runs.
    """

    name: str
    text: str
    find: Callable[[Curves], list[Collapse]]


class Method(NamedTuple):
    """The facts about a method.

    Attributes:
      name: its name on the page.
      seeds: the seeds that have rows.
      reached: the last step that all seeds have reached.
      finished: whether all seeds have all rows; None if their last step is unknown.
      curves: the main metric, at the points that all seeds have.
      gaps: the number of points up to `reached` that were left out because a seed lacks a value.
      ours, published: its summaries; None without a point that all seeds have, and `published` also
        where the paper's table does not apply.
      collapsed: {name of the rule: the collapses}.
      tasks: the number of complete tasks.
      window: the number of tasks that "first" and "last" average over.
      measures: IQMs over seeds: `first` and `last` (the mean of the main metric over the first and
        the last tasks), their difference `change` (NaN if the returns of these tasks have no scale
        in common), `dormant` (the share of dormant units in the last tasks), and the means over
        tasks of `end`, `area`, `drop`, `recovery_steps` and of whether the seed `recovered`.
    """

    name: str
    seeds: list[int]
    reached: int
    finished: bool | None
    curves: Curves
    gaps: int
    ours: Summary | None
    published: Summary | None
    collapsed: dict[str, list[Collapse]]
    tasks: int
    window: int
    measures: dict[str, Estimate]


class Best(NamedTuple):
    """Which method is best.

    Attributes:
      ranking: (method, IQM of its seeds' averages), the best first.
      shared: the steps at which methods were compared, if some lack points that others have.
      left_out: methods that could not be compared.
      rivals: methods whose interval overlaps that of the best; None if this is unknown.
    """

    ranking: list[tuple[str, Estimate]]
    shared: np.ndarray | None
    left_out: list[str]
    rivals: list[str] | None


def table_bin(section: Section) -> int | None:
    """Return the steps of a bin for summaries and collapses: the paper's if runs are long."""
    extent = int(section.frame.step.max())
    of_task = section.steps_per_task or extent // max(1, section.frame.task.nunique())
    return PAPER_BIN if of_task >= PAPER_BIN and extent >= 4 * PAPER_BIN else None


def one_scale(section: Section, main: str) -> bool:
    """Return whether all tasks can be compared; returns of different games cannot."""
    return main not in RETURNS or len(set(section.names)) <= 1


def rules(section: Section, main: str) -> list[Rule]:
    """Return the definitions of a collapse of the main metric."""
    if not one_scale(section, main):
        return []
    if main in RETURNS:
        lasting = f"for at least {SUSTAINED:,} steps"
        absolute = [
            Rule(
                f"D = {drop:,.0f}",
                f"every return is at least {drop:,.0f} below the highest before, {lasting}",
                lambda c, drop=drop: collapses(c.steps, c.values, drop=drop, sustained=SUSTAINED),
            )
            for drop in DROPS
        ]
        relative = Rule(
            "relative D",
            f"the return loses at least {RELATIVE:.0%} of its previous maximum (counted from zero, "
            f"or from the run's first return if that is negative), {lasting}; meant for physics in "
            f"which no return reaches {DROPS[0]:,.0f}",
            lambda c: collapses(
                c.steps, c.values, drop=RELATIVE, sustained=SUSTAINED, relative=True
            ),
        )
        return [absolute[0], relative, *absolute[1:]]
    if main.endswith("accuracy"):
        length = (section.end or int(section.frame.step.max())) // 10
        half = Rule(
            "below half",
            "the accuracy is at most half of its previous maximum, for at least a tenth of the run "
            f"({length:,} updates); the paper's threshold is for returns and does not apply",
            lambda c: collapses(c.steps, c.values, drop=0.5, sustained=length, relative=True),
        )
        return [half]
    return []


def facts(section: Section, rows: dict[str, Rows], main: str) -> list[Method]:
    """Return the facts about each method."""
    hyper = [name for name in section.frame if str(name).startswith(HYPER)]
    frame: Any = section.frame[["method", "seed", "step", "task", *hyper, main]]
    binned = curves(frame, main, bin=table_bin(section), expected=section.end)
    exact = curves(frame, main, expected=section.end)
    chosen = rules(section, main)
    window = max(1, min(WINDOW, (section.tasks or section.frame.task.nunique()) // 4))
    found = []
    for label, each in rows.items():
        known, reached = binned[label].common(), int(each.reached.min())
        has = known.values.size > 0
        published = has and main in RETURNS and table_bin(section) is not None
        tasks = adaptation(exact[label])
        over = ~np.isnan(tasks.area).any(axis=0)
        measures = _measures(section, each, tasks, tasks.area[:, over], window)
        if not _comparable(section, main, int(over.sum()), window):
            measures["change"] = Estimate(np.nan, np.nan, np.nan)
        found.append(
            Method(
                name=label,
                seeds=each.curves.seeds.tolist(),
                reached=reached,
                finished=None if section.end is None else reached >= section.end,
                curves=known,
                gaps=int((binned[label].steps <= reached).sum()) - len(known.steps),
                ours=ours(known) if has else None,
                published=as_published(known) if published else None,
                collapsed={rule.name: rule.find(binned[label]) for rule in chosen},
                tasks=int(over.sum()),
                window=window,
                measures=measures,
            )
        )
    return found


def _comparable(section: Section, main: str, over: int, window: int) -> bool:
    """Return whether the first and the last of the complete tasks have a scale in common."""
    if one_scale(section, main):
        return True
    called = section.names
    tasks = [called[number % len(called)] for number in range(over)]
    return sorted(tasks[:window]) == sorted(tasks[-window:])


def _measures(
    section: Section, rows: Rows, tasks: Adaptation, areas: np.ndarray, window: int
) -> dict[str, Estimate]:
    missing = np.full(len(rows.curves.seeds), np.nan)
    first, last = missing, missing
    if areas.shape[1] >= 2 * window:
        first, last = areas[:, :window].mean(axis=1), areas[:, -window:].mean(axis=1)
    switched = ~np.isnan(tasks.drop)
    back = np.where(switched, ~np.isnan(tasks.recovery_steps), np.nan)
    of_seeds = {
        "first": first,
        "last": last,
        "change": last - first,
        "dormant": _dormant(section, rows, window),
        "end": _mean(tasks.end),
        "area": _mean(tasks.area),
        "drop": _mean(tasks.drop),
        "recovery_steps": _mean(tasks.recovery_steps),
        "recovered": _mean(back),
    }
    return dict(zip(of_seeds, _estimates(np.stack(list(of_seeds.values()), axis=1)), strict=True))


def _dormant(section: Section, rows: Rows, window: int) -> np.ndarray:
    """Return the mean share of dormant units in the last tasks that all seeds reached [seeds]."""
    if "dormant_ratio" not in section.frame:
        return np.full(len(rows.curves.seeds), np.nan)
    values = values_of(rows, section.frame["dormant_ratio"].to_numpy(np.float64))
    here = rows.curves.steps <= rows.reached.min()
    tasks = rows.curves.tasks
    return _mean(values[:, here & (tasks > tasks[here].max(initial=0) - window)])


def ended_by_collapse(section: Section, method: Method) -> int:
    """Return how many seeds had collapsed when that ended the method; 0 if it did not."""
    known = section.folders[0].experiment
    rule = fields_of(section.folders[0]).get("collapse") if known is None else known.collapse
    if rule is None or "collapse" not in section.frame:
        return 0
    rows: Any = section.frame[section.frame.method == method.name]
    fallen = int((rows.groupby("seed")["collapse"].max() > 0).sum())
    try:
        return fallen if _rule(rule).ends(fallen, len(method.seeds)) else 0
    except StudyError:  # a rule that another version wrote
        return 0


def _rule(stored: Any) -> CollapseRule:
    return stored if isinstance(stored, CollapseRule) else read(stored)


def best(methods: list[Method], main: str) -> Best:
    """Return which method has the best average.

    If at least two methods have complete runs, only these are compared; otherwise all methods are.
    Points that some of the compared methods lack are left out for all of them.
    """
    having = [each for each in methods if each.ours is not None]
    whole = [each for each in having if each.finished is not False]
    chosen = whole if len(whole) >= 2 else having
    points = [each.curves.steps for each in chosen] or [np.zeros(0, np.int64)]
    shared: np.ndarray = functools.reduce(np.intersect1d, points)
    cut = any(len(each.curves.steps) > len(shared) for each in chosen)
    chosen = chosen if len(shared) else []
    estimates = {each.name: _average(each, shared if cut else None) for each in chosen}
    sign = -1 if metric(main).better == "lower" else 1
    ranking = sorted(estimates.items(), key=lambda pair: -sign * pair[1].value)
    left_out = [each.name for each in methods if each.name not in estimates]
    rivals = None
    if len(ranking) >= 2 and all(np.isfinite(estimate.low) for _, estimate in ranking):
        top = ranking[0][1]
        rivals = [n for n, e in ranking[1:] if e.high >= top.low and e.low <= top.high]
    return Best(ranking, shared if cut and len(shared) else None, left_out, rivals)


def _average(method: Method, shared: np.ndarray | None) -> Estimate:
    if shared is None:
        assert method.ours is not None
        return method.ours.average
    values = method.curves.values[:, np.isin(method.curves.steps, shared)]
    [estimate] = _estimates(values.mean(axis=1)[:, None])
    return estimate


def _estimates(of_seeds: np.ndarray) -> list[Estimate]:
    """Return the IQM over seeds of each column [seeds, columns] with its 95 % interval."""
    values = statistics.iqm(of_seeds)
    low, high = statistics.bootstrap(statistics.iqm, of_seeds)
    ends = zip(values, np.fmin(low, values), np.fmax(high, values), strict=True)
    one = len(of_seeds) == 1  # tells nothing about others
    return [
        Estimate(float(value), *((np.nan, np.nan) if one else (float(a), float(b))))
        for value, a, b in ends
    ]


def _mean(values: np.ndarray) -> np.ndarray:
    """Return the means over tasks of measured values [seeds]; NaN for a seed without any."""
    count = (~np.isnan(values)).sum(axis=1)
    return np.divide(
        np.nansum(values, axis=1), count, out=np.full(len(values), np.nan), where=count > 0
    )
