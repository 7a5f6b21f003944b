"""Three cards that summarize a section: best method, collapses, plasticity lost."""

from __future__ import annotations

import math

from continual_learning.analysis.curves import RETURNS
from continual_learning.analysis.summary import Estimate
from continual_learning.diagnostics.metrics import metric
from continual_learning.report.facts import SUSTAINED, Best, Method, one_scale, rules, table_bin
from continual_learning.report.markup import (
    Markup,
    difference,
    element,
    interval,
    listed,
    name,
    number,
    steps,
)
from continual_learning.report.studies import Section

NO_SCALE = "Returns of different tasks have no scale in common."


def cards(section: Section, methods: list[Method], best: Best, main: str) -> Markup:
    """Return the cards of the best method, of collapses and of the plasticity lost."""
    return element(
        "div",
        _best(section, methods, best, main),
        _collapses(section, methods, main),
        _plasticity(section, methods, main),
        class_="cards",
    )


def _card(label: str, headline: str, text: str, rows: list[Markup], rule: str) -> Markup:
    return element(
        "article",
        element("h3", label),
        element("p", headline, class_="headline"),
        element("p", text, class_="says"),
        element("div", *rows, class_="rows") if rows else None,
        element("p", rule, class_="note"),
        class_="card",
    )


def _row(methods: list[Method], label: str, plot: Markup | None, *texts: str) -> Markup:
    index = [each.name for each in methods].index(label)
    return element(
        "div",
        element("span", swatch(index), element("span", name(label)), class_="name"),
        plot or element("span"),
        *(element("span", text, class_="num") for text in texts),
        class_="row",
    )


def swatch(index: int) -> Markup:
    """Return a swatch in the color of a method."""
    return element("i", class_=f"swatch c{index}", aria_hidden="true")


def _plot(index: int, *shapes: Markup | None) -> Markup:
    """Return a picture in the color of a method that fills the width it is given."""
    size = {"viewBox": "0 0 100 12", "preserveAspectRatio": "none"}
    return element("svg", *shapes, class_=f"c{index}", aria_hidden="true", **size)


def _bar(index: int, share: float) -> Markup:
    """Return a bar that is filled up to a share."""
    whole = element("rect", x=0, y=2, width=100, height=8, class_="empty")
    return _plot(
        index, whole, element("rect", x=0, y=2, width=100 * share, height=8, class_="full")
    )


def _heads(*texts: str) -> Markup:
    heads = (element("span", text, class_="num") for text in texts)
    return element("div", element("span"), element("span"), *heads, class_="row heads")


def _best(section: Section, methods: list[Method], best: Best, main: str) -> Markup:
    share = metric(main).share
    what = metric(main).title.lower()
    if not best.ranking:
        return _card(
            "Best method", "—", "There is no point yet at which all seeds have a value.", [], ""
        )
    leader, top = best.ranking[0]
    value = f"{interval(top, share)}"
    if len(best.ranking) == 1:
        headline, text = name(leader), f"{value}: the only method that can be judged."
    elif best.rivals is None:
        headline = "No clear winner"
        text = f"{name(leader)} leads with {value}, but a single seed has no interval."
    elif best.rivals:
        headline = "No clear winner"
        rivals = listed([name(each) for each in best.rivals])
        text = f"{name(leader)} leads with {value}; its interval overlaps that of {rivals}."
    else:
        headline, text = name(leader), f"{value}, clear of all others."
    ends = [x for _, e in best.ranking for x in e if math.isfinite(x)]
    low, wide = min(ends), (max(ends) - min(ends)) or 1.0

    def dot(estimate: Estimate, index: int) -> Markup:
        x, a, b = (4 + 92 * (v - low) / wide if math.isfinite(v) else None for v in estimate)
        line = element("line", x1=a, x2=b, y1=6, y2=6, class_="interval") if a is not None else None
        mark = element("line", x1=x, x2=x, y1=1.5, y2=10.5, class_="mark")
        return _plot(index, line, mark)

    order = [each.name for each in methods]
    rows = [
        _row(methods, label, dot(e, order.index(label)), number(e.value, share))
        for label, e in best.ranking
    ]
    better = "lowest" if metric(main).better == "lower" else "highest"
    rule = (
        f"Methods are compared by {what}: the IQM over seeds of each seed's mean over training, "
        f"with its 95 % bootstrap interval. The method with the {better} value wins if its "
        "interval overlaps no other."
    )
    if not one_scale(section, main):
        rule += " Tasks with large returns count most."
    if best.shared is not None:
        points, last = len(best.shared), best.shared[-1]
        rule += f" The comparison uses the {points:,} points that all have, up to step {last:,}."
    if best.left_out:
        left = listed([name(each) for each in best.left_out])
        rule += f" Not compared, since incomplete: {left}."
    return _card("Best method", headline, text, rows, rule)


def _collapses(section: Section, methods: list[Method], main: str) -> Markup:
    chosen = rules(section, main)
    if not chosen:
        text = f"There is no rule for {metric(main).title.lower()}."
        if main in RETURNS:
            text = NO_SCALE
        rule = "A collapse is defined for accuracies, and for returns if all tasks share one scale."
        return _card("Collapses", "—", text, [], rule)
    if main in RETURNS and section.frame.step.max() < SUSTAINED:
        text = f"A collapse lasts at least {SUSTAINED:,} steps; these runs are shorter."
        return _card("Collapses", "—", text, [], "")
    first, *others = chosen
    count = {
        each.name: [len({c.run for c in each.collapsed[rule.name]}) for rule in chosen[:2]]
        for each in methods
    }
    runs = sum(len(each.seeds) for each in methods)
    fallen = sum(each[0] for each in count.values())
    never = [name(label) for label, each in count.items() if not each[0]]
    text = "No seed of any method collapsed."
    if fallen:
        text = (
            f"No seed of {listed(never)} collapsed."
            if never
            else "Every method has seeds that collapsed."
        )
    rows = [_heads(*(rule.name for rule in chosen[:2]))]
    for i, each in enumerate(methods):
        bar = _bar(i, count[each.name][0] / max(1, len(each.seeds)))
        texts = [f"{n} of {len(each.seeds)}" for n in count[each.name]]
        rows.append(_row(methods, each.name, bar, *texts))
    width = table_bin(section)
    rule = f"Numbers of seeds that collapsed. {first.name}: {first.text}."
    if others:
        rule += f" {others[0].name}: {others[0].text}."
    if width:
        rule += f" The values are means over bins of {steps(width)} steps."
    return _card("Collapses", f"{fallen} of {runs} runs", text, rows, rule)


def _plasticity(section: Section, methods: list[Method], main: str) -> Markup:
    share, title = metric(main).share, metric(main).title
    sign = -1 if metric(main).better == "lower" else 1
    changes = {each.name: each.measures["change"] for each in methods}
    known = {k: e for k, e in changes.items() if math.isfinite(e.value)}
    window = methods[0].window if methods else 1
    tasks = "task" if window == 1 else f"{window} tasks"
    rule = f"Change in {title.lower()} from the first {tasks} to the last {tasks}, IQM over seeds"
    dormant = any(math.isfinite(each.measures["dormant"].value) for each in methods)
    rule += "; dormant: share of dormant units in those last ones." if dormant else "."
    if section.main is None or section.main in RETURNS:
        rule += " Tasks differ in difficulty, but equally for all methods, so compare methods."
    if not known and any(math.isfinite(each.measures["last"].value) for each in methods):
        return _dormant(methods, tasks)
    if not known:
        text = f"At least {2 * window} tasks must be complete."
        return _card("Plasticity lost", "—", text, [], rule)
    worst = min(known, key=lambda label: sign * known[label].value)
    lost = [k for k, e in known.items() if sign * e.value < 0]
    if lost:
        headline = f"{name(worst)} {difference(known[worst].value, share)}"
        kept = [name(k) for k in known if k not in lost]
        text = f"loses most. {f'Without a loss: {listed(kept)}.' if kept else ''}"
    else:
        headline, text = "None", "No method is worse on the last tasks than on the first."
    most = max(abs(e.value) for e in known.values()) or 1.0
    rows = [_heads("change", *(["dormant"] if dormant else []))]
    for i, each in enumerate(methods):
        change = changes[each.name].value
        size = 0.0 if not math.isfinite(change) else 48 * change / most
        bar = element("rect", x=50 + min(0.0, size), y=2, width=abs(size), height=8, class_="full")
        zero = element("line", x1=50, x2=50, y1=0, y2=12, class_="zero")
        plot = _plot(i, bar, zero)
        texts = [difference(change, share)]
        if dormant:
            texts.append(number(each.measures["dormant"].value, True, digits=1))
        rows.append(_row(methods, each.name, plot, *texts))
    return _card("Plasticity lost", headline, text, rows, rule)


def _dormant(methods: list[Method], tasks: str) -> Markup:
    """Return the card of the plasticity lost if tasks cannot be compared."""
    found = {each.name: each.measures["dormant"].value for each in methods}
    known = {label: value for label, value in found.items() if math.isfinite(value)}
    if not known:
        return _card("Plasticity lost", "—", NO_SCALE, [], "Dormant units were not measured.")
    worst = max(known, key=lambda label: known[label])
    rows = [_heads("dormant")]
    for i, (label, value) in enumerate(found.items()):
        bar = _bar(i, value) if label in known else None
        rows.append(_row(methods, label, bar, number(value, True, digits=1)))
    text = f"has the most dormant units: {number(known[worst], True, digits=1)}."
    rule = f"Share of dormant units in the last {tasks}, IQM over seeds. {NO_SCALE}"
    return _card("Plasticity lost", name(worst), text, rows, rule)
