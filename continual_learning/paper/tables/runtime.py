"""The table of wall times: the paper's and those of `continual bench`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from continual_learning.analysis import style
from continual_learning.paper.artifacts import Artifact
from continual_learning.paper.numbers import results
from continual_learning.paper.tables.table import ABSENT, Cell, Column, Measured, Table
from continual_learning.studies.timings import Row, Timings


def table(artifact: Artifact, folders: Sequence[str | Path]) -> Table:
    """Return the table of wall times, with rows for each method in the order of the paper.

    Args:
      artifact: the table.
      folders: the path of one file that `Timings.save` wrote.
    """
    path = Path(folders[0])
    if path.is_dir():  # such as results/runtime
        path = next(iter(sorted(path.glob("*.json"))), path)
    paper, found = results(artifact.id), Timings.load(path)
    measured = found.rows()
    ours = {row.method: row for row in measured}
    rows: list[tuple[Cell, ...]] = []
    for method in dict.fromkeys([*paper["rows"], *ours]):
        name, printed = style.name(method), paper["rows"].get(method)
        if printed is None:
            rows.append((name, "paper", ABSENT, ABSENT, ABSENT))
        else:
            hours = Measured(printed["median_hours"], decimals=2)
            rows.append((name, "paper", hours, Measured(printed["overhead_percent"]), ABSENT))
        rows.append((name, "here", *_cells(ours.get(method), measured[0].method)))
    unlike = found.experiment != paper["environment"]
    title = f"Wall time of training: {found.experiment} here, {paper['environment']} in the paper"
    return Table(
        title if unlike else artifact.title,
        (
            Column("Method", "method"),
            Column("Source", "source"),
            Column("Median (h)", "hours"),
            Column("Overhead (%)", "overhead_percent"),
            Column("Steps/s", "steps_per_second"),
        ),
        tuple(rows),
        _notes(found, measured[0].method, paper["environment"], paper["hardware"]),
        artifact.label,
    )


def _cells(row: Row | None, first: str) -> tuple[Cell, Cell, Cell]:
    if row is None:
        return ABSENT, ABSENT, ABSENT
    middle, low, high = row.overhead
    overhead = Measured(0) if row.method == first else Measured(middle, low, high, "interval", 1)
    return Measured(row.hours, decimals=2), overhead, Measured(row.steps_per_second)


def _notes(found: Timings, first: str, environment: str, hardware: str) -> tuple[str, ...]:
    device = found.facts.get("device", "an unknown device")
    return (
        f"Here: {found.experiment}, {found.seeds} seeds side by side on {device}, "
        f"{found.rounds} rounds of {found.steps:,} steps in which every method ran in turn. Hours: "
        f"the time of all seeds together to the end of the {found.chunks:,} chunks, by the median "
        "round, without storage and compilation. Overhead: the additional time over "
        f"{style.name(first)} in the same round, as the median with the minimum and the maximum.",
        f"The paper: {environment} on {hardware}, 15 seeds; it does not say how many ran at once.",
    )
