"""Single values of an experiment, by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from continual_learning.optim import registry
from continual_learning.schema.fields import fields_of
from continual_learning.studies.base import ExperimentSpec, MethodSpec

# What the paper names and no field of ours is.
_COMPUTED: dict[str, Callable[[Any], Any]] = {
    "steps_per_rollout": lambda spec: spec.rollout * spec.environments,
    "steps_per_task": lambda spec: spec.steps_per_task,
    "policy_layers": lambda spec: len(spec.policy_hidden),
    "value_layers": lambda spec: len(spec.value_hidden),
    "policy_width": lambda spec: _only(spec.policy_hidden),
    "value_width": lambda spec: _only(spec.value_hidden),
    "hidden_layers": lambda spec: len(spec.hidden),
    "hidden_width": lambda spec: _only(spec.hidden),
    "aimed_entropy": lambda spec: "−d_action" if (h := spec.target_entropy) is None else h,
    "sequence": lambda spec: tuple(_task(spec.suite, name) for name in spec.sequence),
}


def value(spec: ExperimentSpec, path: str) -> Any:
    """A value of an experiment: a field, `METHOD.OPTION`, or what is computed from fields."""
    if path in _COMPUTED:
        return _COMPUTED[path](spec)
    if "." not in path:
        return getattr(spec, path)
    method, option = spec.method_field(path)
    chosen = spec.methods[method]
    if option in fields_of(MethodSpec):
        return getattr(chosen, option)
    return chosen.options.get(option, default(chosen.reset, option))


def tasks_of(spec: ExperimentSpec) -> list[str]:
    """The name of each task in turn, of an experiment whose tasks have names."""
    names = value(spec, "games" if spec.kind == "games" else "sequence")
    return [names[i % len(names)] for i in range(spec.tasks)]


def default(reset: str | None, option: str) -> Any:
    """What an option of a reset method is where a spec leaves it out; None if not known."""
    if reset is None or reset not in registry.registered():
        return None
    fields = dataclasses.fields(registry.get(reset))
    return next((f.default for f in fields if f.name == option), None)


def _task(suite: str, name: str) -> str:
    """MetaWorld's tasks may be named with their version."""
    return name.removesuffix("-v3") if suite == "metaworld" else name


def _only(widths: tuple[int, ...]) -> Any:
    """The width of all layers, if they have the same."""
    return widths[0] if len(set(widths)) == 1 else ", ".join(map(str, widths))
