"""Writes the table of docs/reproduce.md: every id of the paper, its cost and its status.

python docs/reproduce_table.py
"""

from __future__ import annotations

import re
from pathlib import Path

from continual_learning.analysis.paper import artefacts, plan

PAGE = Path(__file__).with_name("reproduce.md")
BEGIN, END = "<!-- made by docs/reproduce_table.py -->\n\n", "\n\n<!-- until here -->"
RUN = {
    "permuted_mnist": "[run](../results/permuted_mnist/README.md), five seeds, once a task",
    "permuted_mnist_kappa": (
        "[run](../results/permuted_mnist_kappa/README.md), five seeds, once a task"
    ),
    "permuted_mnist_shape_kappa": (
        "[begun](../results/permuted_mnist_shape_kappa/README.md): 120 of 200 tasks"
    ),
    "continual_minatar": "[run](../results/continual_minatar/README.md), five seeds",
    "slippery_ant": "[begun](../results/slippery_ant/README.md): Adam and CPR, 5 of 20 tasks, MJX",
}
"""What there is of an experiment, with the methods of the paper."""

TIMED = "[measured](../results/runtime/README.md) for the ant on MJX, four seeds"


def status(artefact: artefacts.Artefact) -> str:
    """What has been made of it."""
    if artefact.timed:
        return TIMED
    if not artefact.studies:
        return "made: needs no study"
    usual = [set(artefacts.METHODS), {"cpr"}]  # the latter of ablations
    known = {
        RUN.get(each.experiment, "not run") if set(each.methods) in usual else "not run"
        for each in artefact.studies
    }
    return known.pop() if len(known) == 1 else "not run"


def table() -> str:
    """The list of `continual reproduce --list` in Markdown, with the status."""
    every = artefacts.ARTEFACTS
    head, *lines = plan.listing(every.values(), []).splitlines()
    cells = [re.split(r"  +", line.strip()) for line in [head, *lines]]
    rows = [["id", "needs", "short: steps, time", "paper: steps, time", "status"], ["---"] * 5]
    for id, needs, *costs in cells[1 : len(every) + 1]:
        _, short, paper = costs or ("", "", "")
        rows.append([f"`{id}`", needs, short, paper, status(every[id])])
    notes = [f"- {line}" for line in lines[len(every) :]]
    return "\n".join([*("| " + " | ".join(row) + " |" for row in rows), "", *notes])


def main() -> None:
    """Puts the table into the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
