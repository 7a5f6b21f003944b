"""Finds experiments by name, or reads them from a file."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path

from continual_learning import plugins
from continual_learning.schema.errors import StudyError, unknown
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
    "slippery_ant_sac",
    "slippery_humanoid",
    "delayed_ant",
    "delayed_ant_constant",
    "delayed_ant_ramp",
    "delayed_ant_blind",
    "continual_minatar",
    "minatar_five",
    "minatar_cycle",
    "minatar_ppo",
    "continual_metaworld",
    "mt1",
    "gymnasium",
    "gymnasium_ppo",
)
"""The names of our experiments, whose modules in `presets` have a `SPEC`."""

_ADDED: dict[str, tuple[Experiment, str | None]] = {}
"""{name: (experiment, plug-in that it comes from)} of the experiments of users."""


def register(experiment: Experiment) -> None:
    """Make an experiment known by its name; to register it again changes nothing.

    Raises:
      StudyError: if the name is taken.
      TypeError: if the argument is not an experiment.
    """
    if not isinstance(experiment, Experiment):
        raise TypeError(f"An experiment must be an Experiment, got {experiment!r:.200}.")
    name = experiment.name
    if name in _ADDED and _ADDED[name][0] == experiment:
        return
    if name in (*_NAMES, *ablations(), *_ADDED):
        origin = _ADDED[name][1] if name in _ADDED else "this package"
        from_where = f", from {origin}" if origin else ""
        raise StudyError(
            f"There is an experiment {name!r} already{from_where}; choose another name."
        )
    _ADDED[name] = experiment, plugins.origin()


def names() -> list[str]:
    """Return the names of our experiments and of those that users registered."""
    plugins.installed()
    return [*_NAMES, *_ADDED]


def origin(name: str) -> str | None:
    """Return the plug-in that an experiment comes from, or None if it comes from no plug-in."""
    return _ADDED[name][1] if name in _ADDED else None


def ablations() -> list[str]:
    """Return the names of the ablations, as `EXPERIMENT_KIND`; see `presets.ablations`."""
    return [f"{base}_{kind}" for base in rules.BASES for kind in rules.kinds(base)]


def base_of(name: str) -> str:
    """Return the experiment that an ablation is made of, or the name itself for any other."""
    if name in _ADDED:
        return name
    return next((base for base in rules.BASES if name.startswith(f"{base}_")), name)


def get(name: str | Path, scale: str = "paper", methods: Iterable[str] = ()) -> Experiment:
    """Return an experiment at a scale.

    Args:
      name: the name of an experiment or an ablation, or the path of a TOML file.
      scale: "paper", or the name of one of the experiment's own scales.
      methods: the methods to add to its own; see `Experiment.with_methods`.
    """
    if is_file(name):
        return spec.load(name).with_methods(methods).at_scale(scale)
    plugins.installed()
    if name in _ADDED:
        return _ADDED[str(name)][0].with_methods(methods).at_scale(scale)
    return _ours(str(name)).with_methods(methods).at_scale(scale)


def _ours(name: str) -> Experiment:
    if name in _NAMES:
        return importlib.import_module(f"continual_learning.studies.presets.{name}").SPEC
    base = base_of(name)
    if base != name:
        kind = name.removeprefix(f"{base}_")
        if kind not in rules.kinds(base):
            raise unknown(f"ablation of {base}", kind, rules.kinds(base))
        return rules.ABLATIONS[kind].of(_ours(base), name)
    others = ["an ablation (`continual list --ablations`)", "or the path of a .toml file"]
    raise unknown("experiment", name, [*names(), *others])


def is_file(name: str | Path) -> bool:
    """Return whether this is a path rather than a name."""
    return Path(name).suffix == ".toml" or len(Path(name).parts) > 1
