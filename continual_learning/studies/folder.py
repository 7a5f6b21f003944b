"""Opens the folder of a study for reading; nothing in it is changed."""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

from continual_learning.schema.errors import StudyError
from continual_learning.schema.fields import Factor
from continual_learning.studies import contents, spec
from continual_learning.studies.experiment import Experiment
from continual_learning.studies.store import manifest
from continual_learning.studies.store.parts import Parts
from continual_learning.studies.study import Study

LOGGED = 300
"""The most characters of the last line of a log that are shown."""

DOCUMENTS = (manifest.STUDY, manifest.ENVIRONMENT)
"""The files that describe a study."""

_LOG = "log.txt"


@dataclasses.dataclass(frozen=True)
class StudyFolder:
    """A study on the disk, which another version may have written, or which may still run.

    Attributes:
      path: the folder.
      stored: the study as study.toml has it.
      kept: the lanes whose runs do not go on in another study, or None for all.
    """

    path: Path
    stored: Mapping[str, Any]
    kept: Sequence[int] | None = None

    @functools.cached_property
    def table(self) -> Mapping[str, Any]:
        """The stored study with only the lanes that are kept."""
        if self.kept is None:
            return self.stored
        lanes = {"seeds": self.stored["seeds"], **self.stored.get("hyper", {})}
        chosen = {name: [values[i] for i in self.kept] for name, values in lanes.items()}
        return {**self.stored, "seeds": chosen.pop("seeds"), "hyper": chosen}

    @functools.cached_property
    def study(self) -> Study:
        """The study; reading it raises an error if this version cannot."""
        return Study.from_dict(self.table)

    @functools.cached_property
    def experiment(self) -> Experiment | None:
        """The experiment, or None if this version cannot read it."""
        try:
            return spec.from_dict(self.table["experiment"])
        except (KeyError, StudyError, TypeError):
            return None

    @functools.cached_property
    def factors(self) -> Mapping[str, Factor]:
        """The parts of the experiment that this version can read."""
        table = self.table.get("experiment")
        try:
            return spec.parts(table) if isinstance(table, Mapping) else {}
        except StudyError:  # the kind of a part is not known
            return {}

    @property
    def specs(self) -> Mapping[str, Any]:
        """{method: its table} of the experiment."""
        experiment = self.table.get("experiment")
        table = experiment.get("methods") if isinstance(experiment, Mapping) else None
        return table if isinstance(table, Mapping) else {}

    @property
    def methods(self) -> list[str]:
        """The names of the methods of the study."""
        return [str(each) for each in _list(self.table.get("methods"))]

    @property
    def seeds(self) -> list[int]:
        """The seeds of the study."""
        return [each for each in _list(self.table.get("seeds")) if isinstance(each, int)]

    @property
    def runs(self) -> set[str]:
        """The labels of the runs: seeds, and the numbers in which lanes of a seed differ."""
        hyper = self.table.get("hyper")
        table = hyper if isinstance(hyper, Mapping) else {}
        numbers = zip(*(_list(each) for each in table.values()), strict=False)
        named = [str(dict(zip(table, each, strict=True))) for each in numbers]
        each = zip(self.seeds, named or [""] * len(self.seeds), strict=False)
        return {f"{seed} {numbers}" for seed, numbers in each}

    @property
    def rows(self) -> Parts:
        """The files with the rows of the study."""
        return Parts(self.path / "metrics")

    @property
    def row_files(self) -> list[Path]:
        """The files with the rows of all methods."""
        return [file for method in self.rows.methods() for file in self.rows.of(method).values()]

    @property
    def files(self) -> list[Path]:
        """The files of the rows and the documents, with the log."""
        documents = [self.path / name for name in (*DOCUMENTS, _LOG)]
        return [*self.row_files, *(file for file in documents if file.is_file())]

    @property
    def texts(self) -> dict[str, str]:
        """{file name: text} of the documents that describe the study."""
        files = {name: self.path / name for name in DOCUMENTS}
        return {name: file.read_text("utf-8", errors="replace") for name, file in files.items()}

    @property
    def written(self) -> str:
        """A text about the time of the newest rows and the end of the log."""
        said = []
        if times := [file.stat().st_mtime for file in self.row_files]:
            moment = datetime.datetime.fromtimestamp(max(times), datetime.UTC)
            said.append(f"newest rows of {moment:%Y-%m-%d %H:%M:%S} UTC")
        log = self.path / _LOG
        if log.is_file() and (lines := log.read_text("utf-8", errors="replace").splitlines()):
            said.append(f"the log ends with “{shorten(lines[-1], LOGGED, placeholder=' …')}”")
        return "; ".join(said)


def open_study(path: str | Path, kept: Sequence[int] | None = None) -> StudyFolder:
    """Open the folder of a study; raise a StoreError if it is not one.

    Args:
      path: the folder.
      kept: the lanes to read, or None for all.
    """
    return StudyFolder(Path(path), manifest.read(Path(path))[0], kept)


def open_studies(path: str | Path) -> list[StudyFolder]:
    """Open the studies of a folder that have begun: itself, or those of its jobs or its sweep."""
    return [open_study(*part) for part in contents.parts(Path(path))]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
