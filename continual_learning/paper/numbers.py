"""The numbers that the paper prints: its results and its hyper-parameters, unchanged."""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any


@functools.cache
def results(name: str) -> dict[str, Any]:
    """Return a table's numbers: {"rows": {method: {statistic: …}}, "seeds": …, "steps": …, …}.

    Args:
      name: slippery_ant, slippery_humanoid, continual_metaworld, continual_minatar, reset_shapes
        or runtime.
    """
    return _read("results.json")[name]


@functools.cache
def settings(id: str) -> list[dict[str, Any]]:
    """Return the rows of a table of hyper-parameters, in the order of the paper.

    A row has the words of the paper (`parameter`, `method`, `search`), its values (`paper`, one for
    each of `experiments`), and the paths of our values (`ours`, see `paper.values`), or `text` if
    no field holds ours.
    """
    return _read("settings.json")[id]


@functools.cache
def rates() -> list[dict[str, Any]]:
    """Return the measured speeds of studies, and the files that record them."""
    return _read("rates.json")


@functools.cache
def _read(name: str) -> Any:
    text = resources.files("continual_learning.paper").joinpath(name).read_text(encoding="utf-8")
    return json.loads(text)
