"""Optional parts of the installation."""

from __future__ import annotations

import importlib
import importlib.util
from importlib.machinery import PathFinder
from types import ModuleType

from continual_learning.installation import command
from continual_learning.schema.errors import MissingExtraError

EXTRAS: dict[str, dict[str, str]] = {
    "studies": {
        "flax": "flax",
        "pandas": "pandas",
        "pooch": "pooch",
        "pyarrow": "pyarrow",
        "rich": "rich",
        "tomli-w": "tomli_w",
    },
    "flax": {"flax": "flax"},
    "tensorboard": {"tensorboardX": "tensorboardX"},
    "wandb": {"wandb": "wandb"},
    "figures": {"altair": "altair", "vl-convert-python": "vl_convert"},
    "demo": {"scikit-learn": "sklearn"},
    "brax": {"brax": "brax", "mujoco": "mujoco", "mujoco-mjx": "mujoco.mjx"},
    "gymnasium": {"gymnasium": "gymnasium"},
    "metaworld": {"metaworld": "metaworld", "mujoco": "mujoco", "packaging": "packaging"},
    "video": {"imageio[ffmpeg]": "imageio_ffmpeg", "pillow": "PIL"},
    "optuna": {"optuna": "optuna"},
    "submitit": {"submitit": "submitit"},
    "ray": {"ray": "ray"},
    "equinox": {"equinox": "equinox"},
    "haiku": {"dm-haiku": "haiku"},
    "oracle": {"minatar": "minatar"},
}
"""{extra: {distribution: module}}, for all distributions of every extra."""


def missing(extra: str) -> list[str]:
    """Return the distributions of an extra that are not installed; nothing is imported."""
    return [name for name, module in EXTRAS[extra].items() if not _installed(module)]


def require(extra: str, *distributions: str) -> None:
    """Raise a MissingExtraError unless these distributions of an extra are installed.

    Without names, all of the extra must be. Nothing is imported.
    """
    absent = [name for name in missing(extra) if name in (distributions or EXTRAS[extra])]
    if absent:
        raise MissingExtraError(f"{', '.join(absent)} not installed. Run: {command(extra)}")


def load(module: str) -> ModuleType:
    """Import a module of an extra; if it is not installed, the error names the extra."""
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
    package, _, rest = module.partition(".")
    found = importlib.util.find_spec(package)
    if found is None or not rest:
        return found is not None
    # `importlib.util.find_spec` would import the package.
    return PathFinder.find_spec(module, found.submodule_search_locations) is not None
