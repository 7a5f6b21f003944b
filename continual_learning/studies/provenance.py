"""The versions, the commit and the machine that a study runs with, for readers of its numbers."""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
import sys
from typing import Any

import jax

from continual_learning.installation import DISTRIBUTION, VERSION, commit

PACKAGES = ("jax", "jaxlib", "optax", "flax", "numpy", "pyarrow")


def facts() -> dict[str, Any]:
    """Return the versions, the commit, the devices and the command of this process."""
    devices = jax.devices()
    return {
        "continual_learning": VERSION,
        "commit": commit(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in PACKAGES},
        "device": devices[0].device_kind,
        "devices": len(devices),
        "backend": jax.default_backend(),
        "command": " ".join([_program(), *sys.argv[1:]]),
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def line() -> str:
    """Return the facts as a line of a log."""
    found = facts()
    versions = {"Python": found["python"], **found["packages"]}
    parts = [
        f"{DISTRIBUTION} {found['continual_learning']}",
        f"commit {found['commit'] or 'not known'}",
        *(f"{name} {version}" for name, version in versions.items() if version),
        f"{found['devices']} × {found['device']}",
    ]
    return f"{', '.join(parts)}: {found['command']}"


def _program() -> str:
    """Return `continual`, or the command of the module of this package that was started."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    name = "" if spec is None else spec.name
    return f"python -m {name}" if name.startswith("continual_learning.") else "continual"


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
