"""The cost of every table and figure, and the folders that already hold its studies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from continual_learning.analysis.loading import load
from continual_learning.paper.artifacts import Artifact, Study, setting
from continual_learning.paper.folders import Folder, differences, holds
from continual_learning.paper.numbers import rates
from continual_learning.paper.status import status
from continual_learning.schema.errors import unknown
from continual_learning.studies import registry
from continual_learning.studies.store.files import StoreError
from continual_learning.studies.store.parts import HYPER

SCALES = ("smoke", "short", "paper")


class Cost(NamedTuple):
    """The cost of studies.

    Attributes:
      steps: the steps of all methods and seeds together.
      seconds: the time on the device of `rates`; None if nothing comparable was measured.
      at_least: whether the study takes longer, since the measured one ran more seeds at once.
      rates: the measured speeds that were used.
    """

    steps: int
    seconds: float | None
    at_least: bool
    rates: tuple[dict[str, Any], ...]


def cost(studies: Iterable[Study], scale: str) -> Cost:
    """Return the cost of several studies that run one after the other."""
    each = [_cost(study, scale) for study in studies]
    known = [one.seconds for one in each if one.seconds is not None]
    used = tuple({str(rate): rate for one in each for rate in one.rates}.values())
    return Cost(
        sum(one.steps for one in each),
        sum(known) if len(known) == len(each) else None,
        any(one.at_least for one in each),
        used if len(known) == len(each) else (),
    )


def _cost(study: Study, scale: str) -> Cost:
    spec: Any = study.spec(scale)
    steps = spec.steps * spec.seeds * spec.points * len(study.methods)
    for rate in rates():
        # Resets cost next to nothing. Other rollouts and numbers of environments were not measured.
        base = registry.base_of(study.experiment)
        alike = rate["experiment"] == base and all("." in n for n in study.changes)
        environments = getattr(spec.agent, "environments", None)
        if alike and environments == rate.get("environments"):
            seconds = steps / rate["steps_per_second"]
            if seconds >= 1:
                lanes = spec.seeds * spec.points
                return Cost(steps, seconds, lanes < rate["seeds"], (rate,))
    return Cost(steps, None, False, ())


def check_scale(scale: str) -> None:
    """Raise a StudyError if the scale is unknown."""
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)


def finished(folder: Folder) -> bool:
    """Return whether all methods of a folder have reached the end with all seeds."""
    try:
        frame: Any = load(folder.parts)
    except StoreError:  # some part has no rows yet
        return False
    hyper = [name for name in frame if name.startswith(HYPER)]
    lanes = frame.groupby(["method", "seed", *hyper], dropna=False)["step"].max()
    reached = lanes.groupby(["method", "seed"]).min()
    wanted = [(method, seed) for method in folder.methods for seed in folder.seeds]
    return all(reached.get(each, 0) >= folder.spec.steps for each in wanted)


def held(study: Study, folders: Sequence[Folder]) -> list[str]:
    """Return the folders that hold a study, with its scale and its progress, as texts."""
    found = []
    for folder in folders:
        if holds(folder, study):
            state = "finished" if finished(folder) else "unfinished"
            own = [
                f"{name} = {setting(here)}"
                for name, (here, _) in folder.unusual().items()
                if name not in study.changes
            ]
            found.append(f"{folder.path} ({', '.join([_scale(folder, study), state, *own])})")
    return found


def _scale(folder: Folder, study: Study) -> str:
    """Return the name of the scale whose budget a folder has."""
    for scale in SCALES:
        spec = study.spec(scale)
        unlike = differences(folder.spec, spec, ()).keys() - folder.unusual().keys()
        unlike -= study.changes.keys()  # the folder holds them, under whichever name
        if not unlike and len(folder.seeds) == spec.seeds:
            return scale
    return "a budget of its own"


def listing(artifacts: Iterable[Artifact], folders: Sequence[Folder]) -> str:
    """Return the plan as text: a line for each id, then its folders; measured speeds at the end.

    Args:
      artifacts: the tables and figures to list.
      folders: folders that may hold their studies.
    """
    rows = [["id", "needs", *(f"{scale}: steps, time" for scale in SCALES), "status"]]
    below: list[list[str]] = [[]]
    sources: dict[str, tuple[int, dict[str, Any]]] = {}
    for artifact in artifacts:
        line, lines = [artifact.id, _needs(artifact)], []
        if not artifact.studies:
            line += [""] * len(SCALES)
        else:
            for scale in SCALES:
                found = cost(artifact.studies, scale)
                marks = [sources.setdefault(str(r), (len(sources) + 1, r))[0] for r in found.rates]
                line.append(f"{_amount(found.steps)}, {_time(found, marks)}")
            lines += [f"  holds it: {text}" for text in _held(artifact, folders)]
        rows.append([*line, str(status(artifact))])
        below.append(lines)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    text = []
    for row, lines in zip(rows, below, strict=True):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        text += ["  ".join(cells).rstrip(), *lines]
    for number, rate in sources.values():
        changes = [f"{name} = {setting(value)}" for name, value in rate["changes"].items()]
        with_ = f", with {', '.join(changes)}" if changes else ""
        text.append(
            f"({number}) {rate['steps_per_second']:,} steps/s on {rate['device']}, "
            f"{rate['seeds']} seeds at once{with_} ({rate['source']})"
        )
    return "\n".join(text)


def _held(artifact: Artifact, folders: Sequence[Folder]) -> list[str]:
    found: dict[str, None] = {}
    for study in artifact.studies:
        for text in held(study, folders):
            found[f"{study}: {text}" if len(artifact.studies) > 1 else text] = None
    return list(found)


def _needs(artifact: Artifact) -> str:
    if artifact.timed:
        return f"continual bench methods {artifact.timed}"
    if not artifact.studies:
        return "no study"
    if artifact.varied:
        each = (study.values(artifact.varied) for study in artifact.studies)
        values = [setting(value) for values in each for value in values]
        values = values if len(values) < 8 else [*values[:3], "…", values[-1]]
        name = _with_methods(artifact.studies[0])
        return f"{name}, {artifact.varied} = {', '.join(values)}"
    return " and ".join(map(_with_methods, artifact.studies))


def _with_methods(study: Study) -> str:
    [first, *others] = study.methods
    return (
        f"{study.experiment} ({1 + len(others)} methods)"
        if others
        else f"{study.experiment} ({first})"
    )


def _amount(steps: int) -> str:
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if steps >= factor:
            return f"{steps / factor:.3g}{letter}"
    return str(steps)


def _time(found: Cost, marks: Sequence[int]) -> str:
    if found.seconds is None:
        return "not measured"
    bound = "≥ " if found.at_least else ""
    amount, unit = next(
        (found.seconds / size, name)
        for size, name in ((3600, "h"), (60, "min"), (1, "s"))
        if found.seconds >= size
    )
    return f"{bound}{amount:.2g} {unit} ({', '.join(map(str, marks))})"
