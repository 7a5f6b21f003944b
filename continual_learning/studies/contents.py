"""The studies in a folder: itself, those of its jobs, or those of its sweep.

Jobs and sweeps keep their studies in folders of their own. Who reads such a folder stands here by
name, so that readers of studies need to know neither.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from continual_learning import plugins
from continual_learning.studies.store import documents, manifest

_READERS = {
    "sweep.toml": "continual_learning.sweeps.contents",
    "jobs.toml": "continual_learning.jobs.tree",
}
"""{file that a folder of several studies has: module whose `parts` reads it}; the first counts."""


class Part(NamedTuple):
    """A study in a folder.

    Attributes:
      path: its own folder.
      lanes: those whose runs go on nowhere else; None for all.
    """

    path: Path
    lanes: list[int] | None = None


def load_plugins(folder: Path) -> None:
    """Run the plug-ins that a folder's study, jobs or sweep were made with, before these are run.

    Raises:
      StudyError: if one is missing, has changed, or was never named by this user.
    """
    for file in (manifest.STUDY, *_READERS):
        if (folder / file).is_file():
            content = documents.read(folder / file).content
            jobs = content.get("jobs")
            tables = [content, content.get("study"), content.get("sweep")]
            for job in jobs if isinstance(jobs, list) else []:
                tables.append(job.get("study") if isinstance(job, Mapping) else None)
            for table in tables:
                if isinstance(table, Mapping):
                    plugins.need(plugins.from_dict(table))


def several(folder: Path) -> bool:
    """Return whether a folder holds jobs or a sweep, rather than one study."""
    return any((folder / file).is_file() for file in _READERS)


def parts(folder: Path) -> list[Part]:
    """Return the studies of a folder that have begun.

    A run of a sweep that went on in a later rung is there alone, with all its rows.
    """
    for file, module in _READERS.items():
        if (folder / file).is_file():
            return importlib.import_module(module).parts(folder)
    return [Part(folder)]
