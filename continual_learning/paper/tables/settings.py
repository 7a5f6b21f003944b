"""Tables of hyper-parameters: the values that the paper prints and those of our experiments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from continual_learning.paper.artifacts import Artifact
from continual_learning.paper.numbers import settings
from continual_learning.paper.tables.table import Cell, Column, Table
from continual_learning.paper.tables.writers import shown
from continual_learning.paper.values import value
from continual_learning.studies import registry

_UNEQUAL = "≠"
_HEADS = {"search": "Search space"}


def table(artifact: Artifact) -> Table:
    """Return the table of an artifact that needs no study."""
    rows = settings(artifact.id)
    names = [name for name in ("method", "network", "parameter", "search") if name in rows[0]]
    heads = [Column(_HEADS.get(name, name.capitalize()), name) for name in names]
    heads += [Column("Paper", "paper"), Column("Ours", "ours"), Column("", "differs")]
    cells = [(*(row[name] for name in names), *_compared(row)) for row in rows]
    return Table(artifact.title, tuple(heads), tuple(cells), _notes(rows), artifact.label)


def _compared(row: Mapping[str, Any]) -> tuple[Cell, Cell, Cell]:
    """Return the paper's value, ours, and a mark if they differ; "a / b" for two experiments."""
    paper, names = row["paper"], row["experiments"]
    printed = _joined(paper)
    if "text" in row:
        return printed, row["text"], "" if row["text"] == shown(printed) else _UNEQUAL
    each = paper if len(paper) == len(names) else paper * len(names)
    found = [[value(registry.get(name), path) for path in row["ours"]] for name in names]
    same = all(_same(p, v) for p, values in zip(each, found, strict=True) for v in values)
    # Several names stand for methods that share a row; if their values agree, one is shown.
    ours = [v for values in found for v in (values[:1] if _equal(values) else values)]
    if _equal(ours) and len(paper) == 1:
        ours = ours[:1]
    return printed, _joined(ours), "" if same else _UNEQUAL


def _notes(rows: list[dict[str, Any]]) -> tuple[str, ...]:
    names = list(dict.fromkeys(name for row in rows for name in row["experiments"]))
    notes = [f"Ours: the experiments {' / '.join(names)}."]
    if any(_compared(row)[2] for row in rows):
        notes.append(f"{_UNEQUAL}: our value differs from the paper's.")
    return tuple(notes)


def _joined(values: list[Any]) -> Cell:
    return values[0] if len(values) == 1 else " / ".join(shown(value) for value in values)


def _same(paper: Any, ours: Any) -> bool:
    if isinstance(paper, str):
        return paper.lower().replace(" ", "_") == str(ours).lower()
    return paper == ours and isinstance(paper, bool) == isinstance(ours, bool)


def _equal(values: list[Any]) -> bool:
    return all(value == values[0] for value in values)
