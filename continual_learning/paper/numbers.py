"""What the paper prints: its results and its hyper-parameters, as they are there."""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any


@functools.cache
def results(name: str) -> dict[str, Any]:
    """The numbers of a table: {"rows": {method: {statistic: …}}, "seeds": …, "steps": …, …}.

    Args:
      name: slippery_ant, slippery_humanoid, continual_metaworld, continual_minatar, reset_shapes
        or runtime.
    """
    return _read("results.json")[name]


@functools.cache
def settings(id: str) -> list[dict[str, Any]]:
    """The rows of a table of hyper-parameters, in the order of the paper.

    Each has the words of the paper (`parameter`, `method`, `search`), its values (`paper`, one for
    each of `experiments`), and the name of ours (`field` of an experiment, `option` of the methods
    in `of`, or `computed`, see `tables.settings`), or `text` for what is no field.
    """
    return _read("settings.json")[id]


@functools.cache
def rates() -> list[dict[str, Any]]:
    """What was measured of how fast studies run, and where that is written."""
    return _read("rates.json")


@functools.cache
def _read(name: str) -> Any:
    text = resources.files("continual_learning.paper").joinpath(name).read_text(encoding="utf-8")
    return json.loads(text)
