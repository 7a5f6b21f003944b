"""Experiments by name, or from a file."""

from __future__ import annotations

import importlib
from pathlib import Path

from continual_learning.schema.errors import unknown
from continual_learning.studies import spec
from continual_learning.studies.experiment import Experiment
from continual_learning.studies.presets import ablations as rules

_NAMES = (
    "permuted_mnist",
    "permuted_digits",
    "split_mnist",
    "class_incremental_mnist",
    "random_labels",
    "slippery_ant",
    "slippery_ant_2025",
    "slippery_humanoid",
    "delayed_ant",
    "delayed_ant_constant",
    "delayed_ant_ramp",
    "delayed_ant_blind",
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


def ablations() -> list[str]:
    """Names of the ablations, each `EXPERIMENT_WHAT`; see `presets.ablations`."""
    return [f"{base}_{kind}" for base in rules.BASES for kind in rules.kinds(base)]


def base_of(name: str) -> str:
    """The experiment that one of this name is an ablation of; the name itself if of none."""
    return next((base for base in rules.BASES if name.startswith(f"{base}_")), name)


def get(name: str | Path, scale: str = "paper") -> Experiment:
    """The experiment or ablation of that name, or that of a TOML file, at a scale."""
    if is_file(name):
        return spec.load(name).at_scale(scale)
    return _registered(str(name)).at_scale(scale)


def _registered(name: str) -> Experiment:
    if name in _NAMES:
        return importlib.import_module(f"continual_learning.studies.presets.{name}").SPEC
    base = base_of(name)
    if base != name:
        kind = name.removeprefix(f"{base}_")
        if kind not in rules.kinds(base):
            raise unknown(f"ablation of {base}", kind, rules.kinds(base))
        return rules.ABLATIONS[kind].of(_registered(base), name)
    others = ["an ablation (`continual list --ablations`)", "or the path of a .toml file"]
    raise unknown("experiment", name, [*_NAMES, *others])


def is_file(name: str | Path) -> bool:
    """Whether this is a path rather than a name."""
    return Path(name).suffix == ".toml" or len(Path(name).parts) > 1
