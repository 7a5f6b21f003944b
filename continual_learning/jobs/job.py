"""A large study as a list of independent ones."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError
from continual_learning.studies.experiment import Experiment
from continual_learning.studies.study import Study

_TAKEN = (".lock", ".log", ".txt")  # ends of names of files beside the folders of jobs


@dataclasses.dataclass(frozen=True)
class Job:
    """A study that one process runs as a part of a larger one.

    Attributes:
      name: the name of its folder: letters, digits, '_', '-' and '.'.
      study: the study.
    """

    name: str
    study: Study

    def __post_init__(self):
        fine = re.fullmatch(r"\w[\w.-]*", self.name, re.ASCII)
        if not fine or len(self.name) > 2 * bounds.LETTERS or self.name.endswith(_TAKEN):
            raise StudyError(
                "The name of a job becomes a folder: letters, digits, '_', '-' and '.', not first "
                f"'-' or '.', not at the end {', '.join(_TAKEN)}; got "
                f"{bounds.shown(self.name)}."
            )


def divide(
    experiment: Experiment,
    methods: Sequence[str],
    seeds: Sequence[int],
    block: int | None = None,
) -> list[Job]:
    """Return a job for every method and block of seeds.

    Args:
      experiment: the experiment of all jobs.
      methods: the methods; those without options in the experiment have their defaults.
      seeds: the seeds of every method.
      block: how many seeds a job has; None for all seeds.
    """
    if block is not None and block < 1:
        raise StudyError(f"A job needs at least one seed, got {block}.")
    experiment = experiment.with_methods(methods)
    size = len(seeds) if block is None else block
    blocks = [list(seeds[i : i + size]) for i in range(0, len(seeds), size)]
    jobs = []
    for method in methods:
        for part in blocks:
            name = method if len(blocks) == 1 else f"{method}-{_name(part)}"
            jobs.append(Job(name, Study(experiment, [method], part)))
    return jobs


def _name(seeds: Sequence[int]) -> str:
    return f"seed{seeds[0]}" if len(seeds) == 1 else f"seeds{seeds[0]}-{seeds[-1]}"
