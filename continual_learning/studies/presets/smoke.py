"""Options of reset methods at smoke scale, so that all act within a few dozen updates."""

from typing import Any

RESETS: dict[str, Any] = {
    "cpr.every": 10,
    "cbp.replacement_rate": 0.02,
    "cbp.maturity": 5,
    "redo.threshold": 0.5,
    "redo.every": 10,
    "regrama.threshold": 0.5,
    "regrama.every": 10,
    "shrink_perturb.every": 5,
}
