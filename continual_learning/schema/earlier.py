"""Names that earlier versions gave to fields, options, values, columns and states.

Files and rows that were written with them go on being read, and commands that use them go on
working.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NAMES = {
    "as_initialised": "as_initialized",
    "linearised_ratio": "linearized_ratio",
    "normalise_advantages": "normalize_advantages",
    "normalise_observations": "normalize_observations",
    "normaliser": "normalizer",
    "recentre": "recenter",
}
"""{earlier name: present one}."""


def current(name: str) -> str:
    """Return the present name, also of `cpr.recentre` or of `policy_linearised_ratio`."""
    for earlier, present in NAMES.items():
        if name.endswith(earlier):
            return name.removesuffix(earlier) + present
    return name


def renamed(data: Any) -> Any:
    """Return plain data with the present names of its keys and values."""
    if isinstance(data, Mapping):
        return {
            current(key) if isinstance(key, str) else key: renamed(value)
            for key, value in data.items()
        }
    if isinstance(data, list):
        return [renamed(value) for value in data]
    return NAMES.get(data, data) if isinstance(data, str) else data
