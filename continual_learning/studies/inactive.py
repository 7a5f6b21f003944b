"""Finds methods that never reset a unit, whose rows are those of the optimizer alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from continual_learning.optim import registry
from continual_learning.studies.experiment import Experiment

if TYPE_CHECKING:
    from continual_learning.studies.store.store import Store

COLUMN = "units_reset"
"""The end of the names of the columns that count the units reset since the start."""

ADVICE = (
    "no reset was due within these steps, or no unit was low enough. Run for longer, or change the "
    "method's options (every, maturity, replacement_rate, threshold)."
)


def never_acted(parts: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether resets were counted in these tables and no unit was reset in any of them."""
    counted = False
    for columns in parts:
        for name in columns:
            if str(name).endswith(COLUMN):
                counted = counted or len(columns[name]) > 0
                if np.any(np.asarray(columns[name], np.float64) > 0):
                    return False
    return counted


def inactive(store: Store, experiment: Experiment, methods: Sequence[str]) -> list[str]:
    """Return the methods with a reset method that never reset a unit in a study."""
    done = store.progress()
    return [
        method
        for method in methods
        if (reset := experiment.methods[method].reset) is not None
        and registry.resets_units(reset)
        and never_acted(store.read_part(method, chunk) for chunk in range(done.get(method, 0)))
    ]
