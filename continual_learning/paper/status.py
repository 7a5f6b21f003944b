"""The tables and figures of the paper that exist so far, and the runs behind `results/`."""

from __future__ import annotations

from typing import NamedTuple

from continual_learning.paper.artifacts import METHODS, Artifact, Study


class Status(NamedTuple):
    """The state of a table or a figure.

    Attributes:
      word: the state in a word or two.
      page: the page of the repository that shows it, if there is one.
      more: what else a reader must know.
    """

    word: str
    page: str | None = None
    more: str = ""

    def __str__(self) -> str:
        where = f" ({self.page})" if self.page else ""
        return f"{self.word}{where}{self.more}"


NOT_RUN = Status("not run")
NO_STUDY = Status("made: needs no study")
TIMED = Status("measured", "results/runtime/README.md", " for the ant on MJX, four seeds")
RUN = {
    "permuted_mnist": Status(
        "run", "results/permuted_mnist/README.md", ", five seeds, once a task"
    ),
    "permuted_mnist_kappa": Status(
        "run", "results/permuted_mnist_kappa/README.md", ", five seeds, once a task"
    ),
    "permuted_mnist_shape_kappa": Status(
        "begun", "results/permuted_mnist_shape_kappa/README.md", ": 120 of 200 tasks"
    ),
    "continual_minatar": Status("run", "results/continual_minatar/README.md", ", five seeds"),
    "slippery_ant": Status(
        "begun", "results/slippery_ant/README.md", ": Adam and CPR, 5 of 20 tasks, MJX"
    ),
}
"""The state of every experiment that was run with the methods of the paper."""


def status(artifact: Artifact) -> Status:
    """Return the state of a table or a figure."""
    if artifact.timed:
        return TIMED
    if not artifact.studies:
        return NO_STUDY
    known = {_of_study(study) for study in artifact.studies}
    return known.pop() if len(known) == 1 else NOT_RUN


def _of_study(study: Study) -> Status:
    usual = set(study.methods) in (set(METHODS), {"cpr"})  # CPR alone in ablations
    return RUN.get(study.experiment, NOT_RUN) if usual else NOT_RUN
