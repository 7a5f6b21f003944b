"""The folder of a study in jobs: `jobs.toml`, and `jobs/NAME/`, the studies of the jobs."""

from __future__ import annotations

import collections
import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from continual_learning.installation import DISTRIBUTION
from continual_learning.jobs.job import Job
from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError, unknown
from continual_learning.studies.contents import Part
from continual_learning.studies.store import documents, manifest
from continual_learning.studies.store.files import (
    StoreError,
    explained,
    make_folder,
    write_file,
    writing,
)
from continual_learning.studies.study import Study

SCHEMA = 1
FILE = "jobs.toml"
_JOBS = "jobs"
# `create` may find these files of a sweep, or of a process that was killed in `create`.
_UNFINISHED = {_JOBS, "sweep.toml", "log.txt"}


@dataclasses.dataclass(frozen=True)
class Tree:
    """Jobs on the disk.

    Attributes:
      path: the folder.
      jobs: {name: job}, in order.
      launcher: the launcher that began them, as plain data: its `name` and its options.
      chunks: the chunks after which the runs of its jobs count as finished, if not all.
    """

    path: Path
    jobs: Mapping[str, Job]
    launcher: Mapping[str, Any]
    chunks: int | None = None

    def job(self, name: str) -> Job:
        """Return the job of this name."""
        if name not in self.jobs:
            raise unknown(f"job of {self.path}", name, self.jobs)
        return self.jobs[name]

    def folder(self, name: str) -> Path:
        """Return the folder of a job, which exists once the job has begun."""
        return self.path / _JOBS / name

    def log(self, name: str) -> Path:
        """Return the file of the output of a job's processes."""
        return self.path / _JOBS / f"{name}.log"

    def failure(self, name: str) -> Path:
        """Return the file that says why a job failed, which exists only then."""
        return self.path / _JOBS / f"{name}.failed.txt"

    def lock(self, name: str) -> Path:
        """Return the file that the process of a job locks."""
        return self.path / _JOBS / f"{name}.lock"


def create(
    path: str | Path,
    jobs: Sequence[Job],
    launcher: Mapping[str, Any],
    chunks: int | None = None,
) -> Tree:
    """Write jobs into a new or empty folder without running them.

    Args:
      path: the folder; its parents are made, too.
      jobs: jobs with different names.
      launcher: the launcher as plain data, which is kept for resuming the jobs.
      chunks: the chunks after which runs count as finished, if not all.
    """
    path = Path(path)
    tree = Tree(path, _named(jobs), dict(launcher), chunks)
    data = _encoded(tree)
    with explained("make the folder", path):
        make_folder(path)
        inside = [*path.iterdir(), *path.joinpath(_JOBS).glob("*")]
        others = sorted(
            each.name
            for each in inside
            if each.name not in _UNFINISHED and not each.name.endswith(".tmp")
        )
    if others:
        what = "holds jobs already" if FILE in others else f"is not empty ({others[0]}, …)"
        raise StoreError(
            f"{path} {what}. Resume what is there, or choose another folder for new jobs."
        )
    with explained("make the folder", path / _JOBS):
        make_folder(path / _JOBS)
    write_file(path / FILE, data)
    return tree


def is_tree(path: str | Path) -> bool:
    """Return whether a folder holds jobs, rather than one study."""
    return (Path(path) / FILE).is_file()


def read(path: str | Path) -> Tree:
    """Return the jobs of a folder; raise a StoreError if it holds no jobs."""
    path = Path(path)
    if not is_tree(path):
        raise StoreError(f"{path} is not the folder of jobs: it has no {FILE}.")
    file = path / FILE
    content = documents.read(file).content
    schema = content.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        raise StoreError(
            f"{file} has schema {schema}, written by a newer version of {DISTRIBUTION}; this "
            f"one reads schemas up to {SCHEMA}. Upgrade {DISTRIBUTION}."
        )
    try:
        jobs = [Job(each["name"], Study.from_dict(each["study"])) for each in content["jobs"]]
        chunks = content.get("chunks")
        if chunks is not None and not (bounds.whole(chunks) and chunks > 0):
            raise TypeError(f"chunks must be a whole number, got {chunks!r}")
        return Tree(path, _named(jobs), dict(content["launcher"]), chunks)
    except (AttributeError, KeyError, StudyError, TypeError, ValueError) as error:
        raise StoreError(
            f"{file} does not describe jobs ({type(error).__name__}: {error}): restore it from a "
            f"copy, or use the version of {DISTRIBUTION} that wrote it."
        ) from error


def studies(folder: str | Path) -> list[Path]:
    """Return the folders of studies in a folder: itself, or those of the jobs that have begun."""
    folder = Path(folder)
    if not is_tree(folder):
        return [folder]
    found = read(folder)
    return [each for each in map(found.folder, found.jobs) if manifest.is_study(each)]


def parts(folder: Path) -> list[Part]:
    """Return the studies of the jobs that have begun."""
    return [Part(each) for each in studies(folder)]


def note(path: Path, line: str) -> None:
    """Append a line to the log of a folder of jobs or of a sweep, and print it."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    with writing(path / "log.txt", new=False) as file:
        file.write(f"{now} {line}\n".encode())
    print(line, flush=True)


def _named(jobs: Sequence[Job]) -> dict[str, Job]:
    counts = collections.Counter(job.name for job in jobs)
    twice = sorted(name for name, count in counts.items() if count > 1)
    if twice or not jobs:
        what = f"two are called {', '.join(twice)}" if twice else "there is none"
        raise StudyError(f"A tree needs jobs with different names: {what}.")
    return {job.name: job for job in jobs}


def _encoded(tree: Tree) -> bytes:
    tables = [{"name": job.name, "study": job.study.to_dict()} for job in tree.jobs.values()]
    end = {} if tree.chunks is None else {"chunks": tree.chunks}
    content = {"schema": SCHEMA, **end, "launcher": tree.launcher, "jobs": tables}
    return documents.encode(manifest.plain(content, FILE))
