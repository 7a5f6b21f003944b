"""The head of a section: what it is, how far it has come, and what a reader must know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from continual_learning.report.facts import Method, ended_by_collapse
from continual_learning.report.markup import Markup, element, join, listed, name
from continual_learning.report.studies import Section
from continual_learning.studies.inactive import ADVICE, never_acted

MISMATCHED = 1e-3
"""Share of ratios beyond PPO's clip before any update from which a reader is warned."""


def unit(section: Section) -> str:
    """What a step is."""
    return "as counted" if section.agent is None else section.agent.step_unit


def head(section: Section, methods: list[Method]) -> Markup:
    """What the experiment is and how far it has come."""
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
        return "as far as it has rows"
    done = sum(min(each.reached, section.end) * len(each.seeds) for each in methods)
    whole = section.end * sum(len(each) for each in section.planned.values())
    return f"not finished, {done / whole:.0%} of all steps" if whole else "not finished"


def _with_rows(label: str, methods: list[Method]) -> list[Method]:
    """The methods on the page that are this planned one; lanes have parameters in their name."""
    return [each for each in methods if each.name == label or each.name.startswith(f"{label} (")]


def notices(section: Section, methods: list[Method]) -> list[str]:
    """What a reader must know, in sentences."""
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
                f"({each.reached / section.end:.0%}). Its numbers are of what it has done."
            )
        if each.gaps:
            found.append(
                f"{name(each.name)}: {each.gaps:,} of {each.gaps + len(each.curves.steps):,} "
                "points lack a value of some seed; they are left out of its numbers."
            )
    for label, seeds in section.planned.items():
        have = {seed for each in _with_rows(label, methods) for seed in each.seeds}
        missing = [str(seed) for seed in sorted(set(seeds) - have)]
        if have and missing:
            found.append(
                f"{name(label)} has no rows of the seeds {listed(missing)}; its numbers are of the "
                f"other {len(have)}."
            )
    found += [*_unequal(section), *_inactive(section)] if methods else []
    found += _mismatched(section)
    if any(" in " in label for label in section.planned):
        found.append(
            "A method that two folders run with the same seeds or other settings is shown once for "
            "each folder."
        )
    if methods and found and not all(each.finished for each in methods):
        found += [f"{each.path}: {each.written}." for each in section.folders if each.written]
    return found


def _unequal(section: Section) -> list[str]:
    """Methods whose seeds are not equally far."""
    found = []
    for label, rows in section.frame.groupby("method", sort=False):
        ends = rows.groupby("seed").step.max()
        if ends.nunique() > 1:
            found.append(
                f"The seeds of {name(str(label))} are not equally far: from step {ends.min():,} "
                f"(seed {ends.idxmin()}) to {ends.max():,} (seed {ends.idxmax()}). Its IQM ends "
                "where the first of them ends."
            )
    return found


def _mismatched(section: Section) -> list[str]:
    """Methods whose ratios were off before the first update on a rollout."""
    if "initial_clip_fraction" not in section.frame:
        return []
    found = []
    for label, rows in section.frame.groupby("method", sort=False):
        values: Any = rows["initial_clip_fraction"]
        share = values.mean()
        if share > MISMATCHED:
            found.append(
                f"{name(str(label))}: before the first update on a rollout {share:.1%} of the "
                "ratios are beyond PPO's clip, where all should be 1. The stored log densities are "
                "not those of the stored actions (or far too imprecise), so gradients are scaled "
                "wrongly or gone; a loss of return may come from that. See `initial_kl`."
            )
    return found


def _inactive(section: Section) -> list[str]:
    """Methods with resets that have reset no unit."""
    resets = {
        label
        for folder in section.folders
        for label, method in folder.specs.items()
        if isinstance(method, Mapping) and method.get("reset")
    }
    idle = [
        name(str(label))
        for label, rows in section.frame.groupby("method", sort=False)
        if str(label).partition(" in ")[0] in resets
        and never_acted([{str(column): rows[column] for column in rows}])
    ]
    if not idle:
        return []
    return [f"Without a single reset: {listed(idle)}. Rows are the optimizer's: {ADVICE}"]


def _ranges(seeds: list[int]) -> str:
    """0–4, 7: whole stretches of numbers."""
    found: list[list[int]] = []
    for seed in seeds:
        if found and seed == found[-1][-1] + 1:
            found[-1].append(seed)
        else:
            found.append([seed])
    return ", ".join(str(each[0]) if len(each) == 1 else f"{each[0]}–{each[-1]}" for each in found)
