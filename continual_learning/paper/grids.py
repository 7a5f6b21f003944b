"""The grids of the paper's appendix, by experiment and method.

The paper gives the thresholds of ReDo and ReGraMa on robots as 0.05 to 0.75 in 7 steps of 0.1.
That makes 8 values, and 0.5, which it selected for ReDo on SlipperyHumanoid, is not among them. The
grids here have the 8 values and the selected one. The paper has no grid for Permuted MNIST.
"""

from __future__ import annotations

from typing import Any

from continual_learning.schema.errors import StudyError
from continual_learning.studies.experiment import Experiment
from continual_learning.sweeps.grid import Grid

TUNING_SEEDS = 5

_ROBOT_THRESHOLDS = (0.05, 0.15, 0.25, 0.35, 0.45, 0.5, 0.55, 0.65, 0.75)
_FRACTIONS = (None, 0.02, 0.05)
_RARE = (1_000, 10_000, 100_000)


def _dormant(thresholds: tuple[float, ...], every: tuple[int, ...]) -> dict[str, Any]:
    return {"threshold": thresholds, "max_reset_fraction": _FRACTIONS, "every": every}


def _sac(thresholds: tuple[float, ...]) -> dict[str, dict[str, Any]]:
    """Return the grids that Continual MinAtar and Continual MetaWorld share."""
    return {
        "cpr": {"decay": (0.9, 0.99), "max_reset": (0.01, 0.015, 0.02, 0.025), "every": _RARE},
        "cbp": {
            "replacement_rate": (1e-6, 1e-5, 1e-4),
            "decay": (0.9, 0.99, 0.999),
            "maturity": _RARE,
        },
        "redo": _dormant(thresholds, _RARE),
        "regrama": _dormant(thresholds, _RARE),
        "shrink_perturb": {
            "shrink": (1e-3, 1e-4, 1e-5),
            "perturb": (1e-3, 1e-4, 1e-5),
            "every": _RARE,
        },
    }


_ROBOT_EVERY = (100, 1_000, 10_000)
_ROBOTS: dict[str, dict[str, Any]] = {
    "cpr": {
        "decay": (0.9, 0.99),
        "max_reset": (0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.045, 0.05),
        "every": _ROBOT_EVERY,
    },
    "cbp": {
        "decay": (0.9, 0.99),
        "replacement_rate": (1e-4, 5e-4, 1e-3, 2.5e-3, 3e-3, 4e-3),
        "maturity": _ROBOT_EVERY,
    },
    "redo": _dormant(_ROBOT_THRESHOLDS, _ROBOT_EVERY),
    "regrama": _dormant(_ROBOT_THRESHOLDS, _ROBOT_EVERY),
    "shrink_perturb": {
        "shrink": (1e-5, 1e-4, 1e-3, 5e-3),
        "perturb": (1e-5, 1e-4, 1e-3, 5e-3, 1e-2),
        "every": _ROBOT_EVERY,
    },
}
_MT1_EVERY = (1_000, 5_000, 10_000)

GRIDS: dict[str, dict[str, dict[str, Any]]] = {
    "slippery_ant": _ROBOTS,
    "slippery_humanoid": _ROBOTS,
    "mt1": {
        "cpr": {"decay": (0.9, 0.99), "max_reset": (0.01, 0.015, 0.02, 0.025), "every": _MT1_EVERY},
        "cbp": {
            "replacement_rate": (1e-5, 1e-4, 1e-3),
            "decay": (0.9, 0.99, 0.999),
            "maturity": _MT1_EVERY,
        },
        "redo": _dormant((1e-4, 1e-3, 1e-2), (10_000, 100_000)),
        "regrama": _dormant((1e-4, 1e-3, 1e-2), (10_000, 100_000)),
        "shrink_perturb": {
            "shrink": (1e-2, 1e-3, 1e-4),
            "perturb": (1e-3, 1e-2, 1e-1),
            "every": _MT1_EVERY,
        },
    },
    "continual_minatar": _sac((5e-5, 1e-4, 5e-4)),
    "continual_metaworld": _sac((1e-4, 1e-3, 1e-2)),
}
"""Grids as {experiment: {method: {setting: values}}}."""

TUNED_ON: dict[str, dict[str, Any]] = {"mt1": {"sequence": ("peg-insert-side",)}}
"""{experiment: fields} that differed while the paper tuned."""


def grid(experiment: Experiment, method: str) -> Grid:
    """Return the paper's grid of a method; raise a StudyError if it has none."""
    known = GRIDS.get(experiment.name, {})
    if method not in known:
        where = [name for name in GRIDS if method in GRIDS[name]]
        there = f" It has one on {', '.join(where)}." if where else ""
        raise StudyError(
            f"The paper has no grid of {method} on {experiment.name}.{there} Give one: "
            "--grid NAME=VALUES."
        )
    return Grid(known[method])
