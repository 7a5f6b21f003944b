"""The studies in a folder: the folder itself, those of its jobs, or those of its sweep.

Jobs and sweeps keep their studies in folders of their own. This module knows by name the modules
that read them, so that readers of studies do not have to.
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
"""{file in a folder of several studies: module whose `parts` reads it}; the first match counts."""


class Part(NamedTuple):
    """A study in a folder.

    Attributes:
      path: the folder of the study.
      lanes: the lanes whose runs do not go on in another study, or None for all.
    """

    path: Path
    lanes: list[int] | None = None


def load_plugins(folder: Path) -> None:
    """Run the plug-ins that the study, the jobs or the sweep of a folder were made with.

    Raises:
      StudyError: if a plug-in is missing, has changed, or was never named by this user.
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

    A run of a sweep that went on in a later rung belongs only to that rung, with all its rows.
    """
    for file, module in _READERS.items():
        if (folder / file).is_file():
            return importlib.import_module(module).parts(folder)
    return [Part(folder)]
