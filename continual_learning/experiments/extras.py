"""Optional parts of the installation."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from continual_learning.experiments.errors import MissingExtraError

EXTRAS: dict[str, dict[str, str]] = {
    "studies": {
        "flax": "flax",
        "pandas": "pandas",
        "pyarrow": "pyarrow",
        "rich": "rich",
        "tomli-w": "tomli_w",
    },
    "tensorboard": {"tensorboardX": "tensorboardX"},
    "wandb": {"wandb": "wandb"},
    "figures": {"altair": "altair", "vl-convert-python": "vl_convert"},
    "demo": {"scikit-learn": "sklearn"},
    "brax": {"brax": "brax", "mujoco": "mujoco", "mujoco-mjx": "mujoco.mjx"},
    "video": {"imageio[ffmpeg]": "imageio_ffmpeg"},
    "equinox": {"equinox": "equinox"},
    "haiku": {"dm-haiku": "haiku"},
}
"""{extra: {distribution: module}}: what each extra brings."""


def command(extra: str) -> str:
    """How to install an extra."""
    return f"pip install 'continual-learning[{extra}]'"


def missing(extra: str) -> list[str]:
    """Distributions of an extra that are not installed; nothing is imported."""
    return [name for name, module in EXTRAS[extra].items() if not _installed(module)]


def require(extra: str, *distributions: str) -> None:
    """Raises unless all of an extra, or these of it, is installed; nothing is imported."""
    absent = [name for name in missing(extra) if name in (distributions or EXTRAS[extra])]
    if absent:
        raise MissingExtraError(f"{', '.join(absent)} not installed. Run: {command(extra)}")


def load(module: str) -> ModuleType:
    """Imports a module of an extra; if it is not installed, the error names the extra."""
    if not _installed(module):
        name, extra = next(
            (name, extra)
            for extra, parts in EXTRAS.items()
            for name, part in parts.items()
            if part == module
        )
        raise MissingExtraError(f"{name} is not installed. Run: {command(extra)}")
    return importlib.import_module(module)


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package that this module is in
        return False
