"""The launchers, which start jobs: `local`, `submitit` (SLURM) and `ray`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from continual_learning.jobs.launchers.base import Launcher
from continual_learning.jobs.launchers.local import Local
from continual_learning.jobs.launchers.ray import Ray
from continual_learning.jobs.launchers.submitit import Submitit
from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError, unknown

LAUNCHERS: dict[str, type[Launcher]] = {"local": Local, "submitit": Submitit, "ray": Ray}
"""The launchers by name."""


def make(name: str, options: Mapping[str, Any]) -> Launcher:
    """Return the launcher of this name, with its options."""
    if name not in LAUNCHERS:
        raise unknown("launcher", name, LAUNCHERS)
    if not isinstance(options, Mapping):
        raise StudyError(f"options of {name} must be a table, got {bounds.shown(options)}.")
    valid = [each.name for each in dataclasses.fields(LAUNCHERS[name])]  # pyright: ignore
    for option in options:
        if option not in valid:
            raise unknown(f"option of the launcher {name}", option, valid)
    return LAUNCHERS[name](**options)


def to_dict(launcher: Launcher) -> dict[str, Any]:
    """Return a launcher as plain data, for `jobs.toml`."""
    [name] = [name for name, kind in LAUNCHERS.items() if type(launcher) is kind]
    return {"name": name, "options": launcher.options()}


def stored(data: Mapping[str, Any], folder: Path) -> Launcher:
    """Return the launcher of a folder; raise a StudyError if its options run commands."""
    launcher = from_dict(data)
    if asked := launcher.commands():
        listed = ", ".join(f"{name} = {bounds.shown(value, 200)}" for name, value in asked.items())
        raise StudyError(
            f"{folder} names the launcher {data['name']} with options that run commands or lead to "
            f"other machines: {listed}. They are not taken from a folder. If they are to be used, "
            f"repeat the launcher with all of its options: --launcher {data['name']} …"
        )
    return launcher


def from_dict(data: Mapping[str, Any]) -> Launcher:
    """Return the launcher that `to_dict` gave as plain data."""
    return make(str(data.get("name")), data.get("options", {}))
