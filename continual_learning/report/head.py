"""The head of a section: its experiment, its progress, and notices to the reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from continual_learning.optim import registry
from continual_learning.report.facts import Method, ended_by_collapse
from continual_learning.report.markup import Markup, element, join, listed, name
from continual_learning.report.studies import Section
from continual_learning.studies.inactive import ADVICE, never_acted

MISMATCHED = 1e-3
"""A larger share of ratios beyond PPO's clip before any update leads to a warning."""


def unit(section: Section) -> str:
    """Return what a step is."""
    return "as counted" if section.agent is None else section.agent.step_unit


def head(section: Section, methods: list[Method]) -> Markup:
    """Return the experiment's name, its size and its progress."""
    seeds = sorted({seed for each in section.planned.values() for seed in each})
    seeds = seeds or sorted({seed for each in methods for seed in each.seeds})
    tasks = section.tasks or (0 if section.frame.empty else section.frame.task.nunique())
    facts = {
        "Methods": len({*section.planned, *(each.name for each in methods)}),
        "Seeds": f"{len(seeds)} ({_ranges(seeds)})" if seeds else "—",
        "Tasks": tasks or "—",
        "Steps of a task": f"{section.steps_per_task:,}" if section.steps_per_task else "not known",
        "Steps of a run": f"{section.end:,}" if section.end else "not known",
        "State": _state(section, methods),
    }
    kind = "study" if section.agent is None else section.agent.domain
    lead = f"{section.name} · {kind} · steps are {unit(section)}"
    pairs = [element("div", element("dt", k), element("dd", v)) for k, v in facts.items()]
    return join(element("p", lead, class_="lead"), element("dl", *pairs, class_="facts"))


def _state(section: Section, methods: list[Method]) -> str:
    absent = [label for label in section.planned if not _with_rows(label, methods)]
    if methods and not absent and all(each.finished for each in methods):
        return "finished"
    if section.end is None:
        return "not known: the last step of a run is not recorded"
    done = sum(min(each.reached, section.end) * len(each.seeds) for each in methods)
    whole = section.end * sum(len(each) for each in section.planned.values())
    return f"not finished, {done / whole:.0%} of all steps" if whole else "not finished"


def _with_rows(label: str, methods: list[Method]) -> list[Method]:
    """Return the methods on the page that belong to a planned one, whose name begins theirs."""
    return [each for each in methods if each.name == label or each.name.startswith(f"{label} (")]


def notices(section: Section, methods: list[Method]) -> list[str]:
    """Return what a reader must know, in sentences."""
    found = list(section.notices)
    absent = [name(label) for label in section.planned if not _with_rows(label, methods)]
    if absent and methods:
        found.append(f"No rows yet: {listed(absent)}.")
    for each in methods:
        if each.finished is False and section.end:
            fallen = ended_by_collapse(section, each)
            why = f"was ended when {fallen} seeds had collapsed" if fallen else "is not finished"
            found.append(
                f"{name(each.name)} {why}: step {each.reached:,} of {section.end:,} "
                f"({each.reached / section.end:.0%}). Its numbers cover the steps up to there."
            )
        if each.gaps:
            found.append(
                f"{name(each.name)}: {each.gaps:,} of {each.gaps + len(each.curves.steps):,} "
                "points lack a value of some seed; its numbers leave them out."
            )
    for label, seeds in section.planned.items():
        have = {seed for each in _with_rows(label, methods) for seed in each.seeds}
        missing = [str(seed) for seed in sorted(set(seeds) - have)]
        if have and missing:
            found.append(
                f"{name(label)} has no rows of the seeds {listed(missing)}; its numbers cover the "
                f"other {len(have)}."
            )
    found += [*_unequal(section), *_inactive(section)] if methods else []
    found += _mismatched(section)
    if any(" in " in label for label in section.planned):
        found.append(
            "A method is shown once for each folder if two folders ran it with the same seeds or "
            "with different settings."
        )
    if methods and found and not all(each.finished for each in methods):
        found += [f"{each.path}: {each.written}." for each in section.folders if each.written]
    return found


def _unequal(section: Section) -> list[str]:
    """Return a notice for each method whose seeds have reached different steps."""
    found = []
    for label, rows in section.frame.groupby("method", sort=False):
        ends = rows.groupby("seed").step.max()
        if ends.nunique() > 1:
            found.append(
                f"The seeds of {name(str(label))} are not equally far: from step {ends.min():,} "
                f"(seed {ends.idxmin()}) to {ends.max():,} (seed {ends.idxmax()}). Its IQM ends "
                "at the lowest of these steps."
            )
    return found


def _mismatched(section: Section) -> list[str]:
    """Return a notice for each method whose ratios were off before any update on a rollout."""
    if "initial_clip_fraction" not in section.frame:
        return []
    found = []
    for label, rows in section.frame.groupby("method", sort=False):
        values: Any = rows["initial_clip_fraction"]
        share = values.mean()
        if share > MISMATCHED:
            found.append(
                f"{name(str(label))}: before the first update on a rollout {share:.1%} of the "
                "ratios are beyond PPO's clip, although all should be 1. The stored log densities "
                "do not belong to the stored actions (or are far too imprecise), so gradients are "
                "scaled wrongly or vanish; this may explain a loss of return. See `initial_kl`."
            )
    return found


def _inactive(section: Section) -> list[str]:
    """Return a notice of the reset methods that have reset no unit."""
    resets = {
        label
        for folder in section.folders
        for label, method in folder.specs.items()
        if isinstance(method, Mapping) and method.get("reset")
        if registry.resets_units(str(method["reset"]))
    }
    idle = [
        name(str(label))
        for label, rows in section.frame.groupby("method", sort=False)
        if str(label).partition(" in ")[0] in resets
        and never_acted([{str(column): rows[column] for column in rows}])
    ]
    if not idle:
        return []
    return [
        f"Without a single reset: {listed(idle)}. Their rows are those of the optimizer alone: "
        f"{ADVICE}"
    ]


def _ranges(seeds: list[int]) -> str:
    """Return seeds as text, with runs of consecutive numbers as ranges: "0–4, 7"."""
    found: list[list[int]] = []
    for seed in seeds:
        if found and seed == found[-1][-1] + 1:
            found[-1].append(seed)
        else:
            found.append([seed])
    return ", ".join(str(each[0]) if len(each) == 1 else f"{each[0]}–{each[-1]}" for each in found)
