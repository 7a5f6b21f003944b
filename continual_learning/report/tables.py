"""The tables of a section, its specs and its data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from continual_learning.analysis.summary import Summary
from continual_learning.diagnostics.metrics import metric
from continual_learning.report.cards import swatch
from continual_learning.report.facts import Method, rules, table_bin
from continual_learning.report.head import unit
from continual_learning.report.markup import (
    Markup,
    difference,
    element,
    interval,
    join,
    name,
    number,
    steps,
)
from continual_learning.report.studies import Section

EVENTS = 200
"""The largest number of collapses that are listed one by one."""


class Cell(NamedTuple):
    """A cell: its text and the value by which it is sorted."""

    text: object
    value: float | str = ""


def tables(section: Section, methods: list[Method], main: str) -> Markup:
    """Return all tables."""
    return join(
        _summaries(section, methods, main),
        _adaptation(section, methods, main),
        _collapses(section, methods, main),
    )


def _table(caption: str, note: str, heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Markup:
    head = element("tr", *(element("th", each, scope="col") for each in heads))
    body = []
    for first, *others in rows:
        cells = [element("th", first.text, scope="row", data_value=first.value)]
        cells += [element("td", each.text, data_value=each.value) for each in others]
        body.append(element("tr", *cells))
    table = element("table", element("thead", head), element("tbody", *body), class_="sortable")
    return join(
        element("h4", caption),
        element("p", note, class_="note"),
        element("div", table, class_="scroll", tabindex="0", role="region", aria_label=caption),
    )


def _method(methods: list[Method], each: Method) -> Cell:
    index = methods.index(each)
    return Cell(join(swatch(index), element("span", name(each.name))), name(each.name))


def _summaries(section: Section, methods: list[Method], main: str) -> Markup:
    share = metric(main).share
    having = [each for each in methods if each.ours is not None]
    kinds = {"ours": [each.ours for each in having]}
    if any(each.published for each in having):
        kinds["as published"] = [each.published for each in having]
    width = table_bin(section)
    bins = f"in bins of {steps(width)} steps" if width else "of single rows"
    notes = {
        "ours": f"{metric(main).title} {bins}: each seed's mean over training, its last value and "
        "its largest one; the IQM of these over seeds, with its 95 % bootstrap interval.",
        "as published": "As the paper's scripts compute them: the IQM over seeds at each point (by "
        "percentiles, which keeps 7 of 15 seeds), then its mean over points, its last and its "
        "largest value; the intervals reach from the 25th to the 75th percentile over seeds.",
    }
    heads = ("Method", "Seeds", "Up to step", "Average", "Final", "Peak", "Peak at step")
    found = []
    for kind, summaries in kinds.items():
        rows = []
        for each, summary in zip(having, summaries, strict=True):
            assert isinstance(summary, Summary)
            rows.append(
                [
                    _method(methods, each),
                    Cell(summary.seeds, summary.seeds),
                    Cell(f"{each.curves.steps[-1]:,}", int(each.curves.steps[-1])),
                    *(Cell(interval(e, share), e.value) for e in summary[:3]),
                    Cell(f"{summary.peak_step:,}", summary.peak_step),
                ]
            )
        found.append(_table(f"Average, final and peak, {kind}", notes[kind], heads, rows))
    return join(*found)


def _adaptation(section: Section, methods: list[Method], main: str) -> Markup:
    share = metric(main).share
    rows_of_task = len(section.frame) / max(
        1, len(section.frame.groupby(["method", "seed", "task"]))
    )
    single = rows_of_task < 2
    heads = ["Method", "Tasks", "First tasks", "Last tasks", "Change", "End of a task"]
    note = (
        f"{metric(main).title}: IQM over seeds of each seed's mean, with 95 % bootstrap interval. "
        f"The first and the last tasks are {methods[0].window} of them at either end."
    )
    if single:
        note += " A task has one row, which cannot show how the task is learned."
    else:
        heads += ["Mean of a task", "Drop at a switch", "Tasks recovered", "Steps to recover"]
        note += (
            " Drop: the last value before a switch minus the first one after it. A seed recovers "
            "in a task if it reaches its highest value before the task again; the last column "
            f"counts the {unit(section)} until then, in the tasks in which seeds recover."
        )
    rows = []
    for each in methods:
        of = each.measures
        cells = [
            _method(methods, each),
            Cell(each.tasks, each.tasks),
            *(Cell(interval(of[k], share), of[k].value) for k in ("first", "last")),
            Cell(interval(of["change"], share, difference), of["change"].value),
            Cell(interval(of["end"], share), of["end"].value),
        ]
        if not single:
            cells += [
                Cell(interval(of["area"], share), of["area"].value),
                Cell(interval(of["drop"], share), of["drop"].value),
                Cell(number(of["recovered"].value, True), of["recovered"].value),
                Cell(f"{of['recovery_steps'].value:,.0f}", of["recovery_steps"].value)
                if of["recovery_steps"].value == of["recovery_steps"].value
                else Cell("—", "nan"),
            ]
        rows.append(cells)
    return _table("Adaptation to tasks", note, heads, rows)


def _collapses(section: Section, methods: list[Method], main: str) -> Markup:
    chosen = rules(section, main)
    if not chosen:
        return join()
    note = " ".join(f"{rule.name}: {rule.text}." for rule in chosen)
    heads = ["Method", "Seeds", *(rule.name for rule in chosen)]
    rows, events = [], []
    for each in methods:
        counts = [len({c.run for c in each.collapsed[rule.name]}) for rule in chosen]
        rows.append(
            [
                _method(methods, each),
                Cell(len(each.seeds), len(each.seeds)),
                *(Cell(n, n) for n in counts),
            ]
        )
        events += [(each, collapse) for collapse in each.collapsed[chosen[0].name]]
    table = _table("Seeds that collapsed", note, heads, rows)
    if not events:
        return table
    listing = [
        [
            _method(methods, each),
            Cell(each.seeds[c.run], each.seeds[c.run]),
            Cell(f"{c.start:,}", c.start),
            Cell("still open" if c.open else f"{c.end:,}", c.end),
            Cell(number(c.depth), c.depth),
        ]
        for each, c in events[:EVENTS]
    ]
    cut = f" The table has the first {EVENTS} of {len(events)}." if len(events) > EVENTS else ""
    inner = _table(
        f"Every collapse by {chosen[0].name}",
        "The step after which it begins, its last step, and how far below the peak it goes." + cut,
        ("Method", "Seed", "After step", "Until step", "Depth"),
        listing,
    )
    return join(
        table, element("details", element("summary", f"All {len(events)} one by one"), inner)
    )


def sources(section: Section, out: Path | None) -> Markup:
    """Return specs, versions and data, with links to the folders if the page is a file."""
    found = []
    for folder in section.folders:
        place = element("code", str(folder.path))
        if out is not None:
            place = element("a", place, href=link(folder.path, out.parent))
        found.append(
            element("p", "Data: ", place, f" ({folder.written})" if folder.written else "")
        )
        for file, text in folder.texts.items():
            found.append(
                element(
                    "details",
                    element("summary", element("code", file)),
                    element("pre", text, tabindex="0"),
                )
            )
    return join(*found)


def link(folder: Path, start: Path) -> str:
    """Return a relative address; its dot keeps a folder's name from being read as a scheme."""
    relative = os.path.relpath(folder.resolve(), start.resolve())
    return quote("./" + Path(relative).as_posix())
