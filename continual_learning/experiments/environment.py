"""Where a study runs: what a reader of its numbers needs to know."""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax

import continual_learning

PACKAGES = ("jax", "jaxlib", "optax", "flax", "numpy", "pyarrow")


def facts() -> dict[str, Any]:
    """Versions, commit, device and command."""
    devices = jax.devices()
    return {
        "continual_learning": continual_learning.__version__,
        "commit": commit(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in PACKAGES},
        "device": devices[0].device_kind,
        "devices": len(devices),
        "processes": jax.process_count(),
        "backend": jax.default_backend(),
        "command": " ".join(["continual", *sys.argv[1:]]),
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def commit() -> str | None:
    """The commit of the source tree that the package is in, with "+" if it was changed."""
    folder = Path(continual_learning.__file__).parent

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, text=True, check=True, timeout=10
        )
        return done.stdout.strip()

    try:
        if not git("ls-files", "__init__.py"):  # installed somewhere inside another repository
            return None
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
