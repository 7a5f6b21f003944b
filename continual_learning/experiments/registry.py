"""Experiments by name, or from a file."""

from __future__ import annotations

import importlib
from pathlib import Path

from continual_learning.experiments import spec
from continual_learning.experiments.base import ExperimentSpec, trusted
from continual_learning.experiments.errors import unknown

_NAMES = (
    "permuted_mnist",
    "permuted_digits",
    "split_mnist",
    "class_incremental_mnist",
    "random_labels",
    "slippery_ant",
    "slippery_humanoid",
    "delayed_ant",
    "continual_minatar",
    "minatar_five",
    "minatar_cycle",
    "continual_metaworld",
    "mt1",
    "gymnasium",
)


def names() -> list[str]:
    """The registered experiments; each is a module of `presets` with a `SPEC`."""
    return list(_NAMES)


def get(name: str | Path) -> ExperimentSpec:
    """The experiment of that name, or that of a TOML file."""
    if is_file(name):
        return spec.load(name)
    if name not in _NAMES:
        raise unknown("experiment", str(name), [*_NAMES, "or the path of a .toml file"])
    with trusted():
        return importlib.import_module(f"continual_learning.experiments.presets.{name}").SPEC


def is_file(name: str | Path) -> bool:
    """Whether this is a path rather than a name."""
    return Path(name).suffix == ".toml" or len(Path(name).parts) > 1
