"""Writes the table of docs/reproduce.md: every id of the paper, its cost and its status.

python docs/reproduce_table.py
"""

from __future__ import annotations

import re
from pathlib import Path

from continual_learning.paper import artifacts, plan
from continual_learning.paper.status import Status, status

PAGE = Path(__file__).with_name("reproduce.md")
BEGIN, END = "<!-- made by docs/reproduce_table.py -->\n\n", "\n\n<!-- until here -->"


def linked(status: Status) -> str:
    """Return a status in Markdown."""
    word = f"[{status.word}](../{status.page})" if status.page else status.word
    return f"{word}{status.more}"


def table() -> str:
    """Return the list of `continual reproduce --list` in Markdown, with the status."""
    every = artifacts.ARTIFACTS
    head, *lines = plan.listing(every.values(), []).splitlines()
    cells = [re.split(r"  +", line.strip()) for line in [head, *lines]]
    rows = [["id", "needs", "short: steps, time", "paper: steps, time", "status"], ["---"] * 5]
    for id, needs, *costs, _ in cells[1 : len(every) + 1]:
        _, short, paper = costs or ("", "", "")
        rows.append([f"`{id}`", needs, short, paper, linked(status(every[id]))])
    notes = [f"- {line}" for line in lines[len(every) :]]
    return "\n".join([*("| " + " | ".join(row) + " |" for row in rows), "", *notes])


def main() -> None:
    """Put the table into the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
