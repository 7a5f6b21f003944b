"""Writes the table of docs/diagnostics.md: every column that an agent measures.

python docs/metrics_table.py
"""

from __future__ import annotations

import itertools
from pathlib import Path

from continual_learning.diagnostics.metrics import METRICS

PAGE = Path(__file__).with_name("diagnostics.md")
BEGIN, END = "<!-- made by docs/metrics_table.py -->\n\n", "\n\n<!-- until here -->"


def table() -> str:
    """Return all metrics in Markdown."""
    rows = [["column", "title", "unit", "better", "what it is"], ["---"] * 5]
    for group, metrics in itertools.groupby(METRICS.values(), lambda each: each.group):
        rows.append([f"**{group}**", "", "", "", ""])
        rows += [[f"`{m.name}`", m.title, m.unit, m.better or "", m.text] for m in metrics]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main() -> None:
    """Put the table into the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
