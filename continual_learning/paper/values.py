"""Single values of an experiment, by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from continual_learning.optim import registry
from continual_learning.schema.fields import fields_of
from continual_learning.studies.experiment import Experiment, MethodSpec

# Values that the paper prints and that are no field of ours.
_COMPUTED: dict[str, Callable[[Any], Any]] = {
    "steps_per_rollout": lambda spec: spec.agent.rollout * spec.agent.environments,
    "steps_per_task": lambda spec: spec.steps_per_task,
    "policy_layers": lambda spec: len(spec.networks.policy_hidden),
    "value_layers": lambda spec: len(spec.networks.value_hidden),
    "policy_width": lambda spec: _only(spec.networks.policy_hidden),
    "value_width": lambda spec: _only(spec.networks.value_hidden),
    "hidden_layers": lambda spec: len(spec.networks.hidden),
    "hidden_width": lambda spec: _only(spec.networks.hidden),
    "aimed_entropy": lambda spec: "−d_action" if (h := spec.agent.target_entropy) is None else h,
    "sequence": lambda spec: tuple(dict.fromkeys(spec.task_names)),
}


def value(spec: Experiment, path: str) -> Any:
    """Return a value of an experiment: a field, `METHOD.OPTION`, or one computed from fields."""
    if path in _COMPUTED:
        return _COMPUTED[path](spec)
    if "." not in path:
        return spec.value(path)
    method, option = spec.method_field(path)
    chosen = spec.methods[method]
    if option in fields_of(MethodSpec):
        return getattr(chosen, option)
    return chosen.options.get(option, default(chosen.reset, option))


def default(reset: str | None, option: str) -> Any:
    """Return the default of an option of a reset method; None if it is unknown."""
    if reset is None or reset not in registry.registered():
        return None
    fields = dataclasses.fields(registry.get(reset))
    return next((f.default for f in fields if f.name == option), None)


def _only(widths: tuple[int, ...]) -> Any:
    """Return the width that all layers share, or else all widths as text."""
    return widths[0] if len(set(widths)) == 1 else ", ".join(map(str, widths))
