"""Ablations of CPR and of its setting: experiments that a rule makes of other experiments.

For example, `slippery_ant_rho` is `slippery_ant` with nine values of ρ. Numbers are lanes of one
program. A change of the program is a method of its own beside `cpr`, or an experiment with one
changed field, to be compared with the experiment that it is made of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from continual_learning.schema import bounds
from continual_learning.studies.experiment import Experiment

BASES = ("permuted_mnist", "permuted_digits", "slippery_ant", "slippery_humanoid")
"""The experiments that have ablations."""

RHO = (0.001, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.1)
KAPPA = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 20.0, math.inf)
SHAPES = ("sigmoid", "exp", "softplus", "linear")
"""The shapes in the order of `optim.shapes.SHAPES`; a lane has the number of its shape."""


_NUMBERS = tuple(range(len(SHAPES)))


class Ablation(NamedTuple):
    """A rule that makes an ablation of an experiment.

    Attributes:
      title: a description of the change.
      changes: a function experiment -> {field: value} of the fields that change.
      robots: whether the rule is only for robots.
    """

    title: str
    changes: Callable[[Any], Mapping[str, Any]]
    robots: bool = False

    def of(self, base: Experiment, name: str) -> Experiment:
        """Return the ablation of an experiment, under a new name."""
        title = f"{self.title}: ablation of {base.name}"
        return base.override(**self.changes(base), name=name, title=title)


def _lanes(**lanes: tuple[float, ...]) -> Callable[[Experiment], dict[str, Any]]:
    return lambda base: {"methods": {"cpr": base.methods["cpr"]}, "lanes": lanes}


def _variant(name: str, **options: Any) -> Callable[[Experiment], dict[str, Any]]:
    """Return the rule for CPR with its own options and with others."""

    def changes(base: Experiment) -> dict[str, Any]:
        cpr = base.methods["cpr"]
        return {"methods": {"cpr": cpr, f"cpr_{name}": cpr.override(**options)}}

    return changes


def _optimizers(base: Experiment) -> dict[str, Any]:
    """Return the change to every base optimizer without resets and with CPR."""
    methods = {}
    for name in ("adam", "adamw", "muon"):
        methods[name] = base.methods["adam"].override(optimizer=name)
        with_cpr = "cpr" if name == "adam" else f"cpr_{name}"
        methods[with_cpr] = base.methods["cpr"].override(optimizer=name)
    return {"methods": methods}


def _rollout(factor: int) -> Callable[[Experiment], dict[str, Any]]:
    def changes(base: Experiment) -> dict[str, Any]:
        return rollout_changes(base, factor * base.value("rollout"))

    return changes


ABLATIONS: dict[str, Ablation] = {
    "rho": Ablation("CPR's largest reset ρ, 9 values", _lanes(max_reset=RHO)),
    "kappa": Ablation("CPR's sharpness κ, 10 values from 0 to ∞", _lanes(sharpness=KAPPA)),
    "shape": Ablation("CPR's shape φ, all 4", _lanes(shape=_NUMBERS)),
    "shape_kappa": Ablation(
        "CPR's shape φ and sharpness κ, 4 × 10", _lanes(shape=_NUMBERS, sharpness=KAPPA)
    ),
    "score": Ablation(
        "Utility of batch or per-sample gradients", _variant("per_sample", score="per_sample")
    ),
    "outgoing": Ablation(
        "With and without shrinking outgoing weights", _variant("no_shrink", shrink_outgoing=False)
    ),
    "recentering": Ablation(
        "With and without utilities put back to 1", _variant("no_recentering", recenter=False)
    ),
    "moments": Ablation(
        "Without and with resets of moments", _variant("moments", reset_moments=True)
    ),
    "bias": Ablation("Without and with resets of biases", _variant("bias", reset_bias=True)),
    "optimizer": Ablation("Adam, AdamW and Muon, each without and with CPR", _optimizers),
    "layer_norm": Ablation("LayerNorm in all networks", lambda base: {"layer_norm": True}),
    "rollout_2x": Ablation("Rollouts of twice the size", _rollout(2), robots=True),
    "rollout_4x": Ablation("Rollouts of four times the size", _rollout(4), robots=True),
}
"""The ablations by the end of their names."""


def kinds(base: str) -> list[str]:
    """Return the kinds of ablations that an experiment has."""
    robot = base.startswith("slippery_")
    return [kind for kind, each in ABLATIONS.items() if robot or not each.robots]


def rollout_changes(base: Experiment, rollout: int) -> dict[str, Any]:
    """Return the changes for another rollout; a task keeps about the same number of steps."""

    def fields(iterations: int, chunk: int) -> dict[str, int]:
        count = max(1, round(iterations * base.value("rollout") / rollout))
        fits = bounds.largest_divisor(count, chunk)
        return {"iterations_per_task": count, "iterations_per_chunk": fits}

    usual = {name: base.value(name) for name in ("iterations_per_task", "iterations_per_chunk")}
    scales = {
        scale: {**values, **fields(*({**usual, **values}[name] for name in usual))}
        for scale, values in base.scales.items()
    }
    return {"rollout": rollout, "scales": scales, **fields(*usual.values())}
