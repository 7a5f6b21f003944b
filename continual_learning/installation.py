"""The installed distribution: its name, which is not the package's, its version and commit."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

DISTRIBUTION = "plasticax"
"""The name for `pip install`; `continual-learning` is that of another project."""

VERSION = "0.1.0"

COMMIT = "COMMIT"
"""The file of the package that names its commit, if it was built from a clone."""


def command(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def commit() -> str | None:
    """Return the commit of the source, with "+" if it was changed, or None if it is not known.

    The commit is that of the clone that holds the package or, for an installed package, that of
    the clone from which it was built.
    """
    folder = Path(__file__).parent

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, text=True, check=True, timeout=10
        )
        return done.stdout.strip()

    try:
        if git("ls-files", "__init__.py"):  # else it is installed inside another repository
            changed = git("status", "--porcelain", "--untracked-files=no")
            return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        pass
    built = folder / COMMIT
    return built.read_text("utf-8").strip() if built.is_file() else None


def warn_if_overwritten() -> None:
    """Warn if `continual_learning/__init__.py` is not ours.

    The distribution `continual-learning` has an import package of the same name. When both are
    installed, the one that came last has written its `__init__.py` over that of the other; when
    one is removed, that file goes with it.
    """
    found = getattr(sys.modules["continual_learning"], "__version__", "absent")
    if found != VERSION:
        warnings.warn(
            f"continual_learning/__init__.py is not that of {DISTRIBUTION} {VERSION} (its version "
            f"is {found}): another distribution, probably continual-learning, has the same import "
            "package. Both cannot be in one environment: pip uninstall continual-learning, then "
            f"install {DISTRIBUTION} again with --force-reinstall --no-deps.",
            stacklevel=3,
        )
