"""A table: columns, rows of text and numbers, and notes below."""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple


class Measured(NamedTuple):
    """A statistic and its uncertainty.

    Attributes:
      value: the statistic.
      low: the lower end of its interval; None if there is no interval.
      high: the upper end.
      form: how it is shown: with errors (6051 +290 −320), with one error for both sides
        (75.6 ± 14.3), or with the ends of its interval (6051 [5731, 6341]).
      decimals: digits after the point.
      best: whether it is the best of its column.
      remark: text that follows it, such as the step of a peak.
    """

    value: float
    low: float | None = None
    high: float | None = None
    form: Literal["errors", "symmetric", "interval"] = "errors"
    decimals: int = 0
    best: bool = False
    remark: str = ""


ABSENT = "—"
"""The cell of a value that was not measured; it is empty in a CSV file."""

Cell = str | bool | int | float | Measured | None
"""The content of a cell: text, a setting, a statistic, or nothing."""


class Column(NamedTuple):
    """A column.

    Attributes:
      name: its head in text.
      key: its name in a CSV file.
    """

    name: str
    key: str


@dataclasses.dataclass(frozen=True)
class Table:
    """A table as data; `writers` makes text of it.

    Attributes:
      title: its caption.
      columns: the first one names the rows.
      rows: rows with a cell for each column. Neighbors with the same first cell belong together,
        and text for people shows this cell once.
      notes: explanations that the numbers need, of a sentence or two.
      label: its LaTeX label; None for no label.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    label: str | None = None

    def __post_init__(self):
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"A row has {len(row)} cells; the table has {len(self.columns)} columns."
                )


def measured(
    estimate: tuple[float, float, float],
    form: Literal["errors", "symmetric", "interval"],
    decimals: int,
    remark: str = "",
) -> Cell:
    """Return the cell of (value, low, high); NaN is not shown."""
    value, low, high = estimate
    if value != value:
        return ABSENT
    if low != low:  # a single seed has no interval
        return Measured(value, decimals=decimals, remark=remark)
    return Measured(value, low, high, form, decimals, remark=remark)


def mark_best(rows: list[list[Cell]], column: int) -> list[list[Cell]]:
    """Return the rows with the largest values of a column marked as the best."""
    values = [cell.value for row in rows if isinstance(cell := row[column], Measured)]

    def marked(cell: Cell) -> Cell:
        if isinstance(cell, Measured) and len(values) > 1 and cell.value == max(values):
            return cell._replace(best=True)
        return cell

    return [[marked(cell) if i == column else cell for i, cell in enumerate(row)] for row in rows]
