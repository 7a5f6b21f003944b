"""Histograms of units' utilities, from the checkpoints of a study."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from continual_learning.optim.log import BIN_WIDTH
from continual_learning.studies.store.store import Store

__all__ = ["BIN_WIDTH", "Utilities", "utilities"]

_LEAF = "log/histogram"


class Utilities(NamedTuple):
    """The distribution of the utilities of a method's units.

    Attributes:
      counts: int64 [bins], units in all updates so far, over all layers, networks and seeds.
      seeds: the number of seeds.
      updates: the updates of a seed up to the checkpoint; 0 if they are not recorded.
    """

    counts: np.ndarray
    seeds: int
    updates: int


def utilities(folder: Path, method: str) -> Utilities | None:
    """Return the utilities in a method's newest checkpoint; None without one or its histograms."""
    import jax

    newest = max(folder.glob(f"checkpoints/{method}/[0-9]*/leaves.json"), default=None)
    if newest is None:
        return None
    listing = json.loads(newest.read_text())
    leaves = {path: leaf for path, leaf in listing["leaves"].items() if path.endswith(_LEAF)}
    leaves = {path: leaf for path, leaf in leaves.items() if 0 not in leaf["shape"]}
    if not leaves:
        return None
    calls = [path for path in listing["leaves"] if path.endswith("calls")]
    like: dict[str, Any] = {}
    for path in (*leaves, *calls):
        leaf = listing["leaves"][path]
        _put(like, path.split("/"), jax.ShapeDtypeStruct(leaf["shape"], leaf["dtype"]))
    store, total, updates = Store.read(folder), 0, 0
    for lane in range(listing["lanes"]):
        found = store.restore(method, like, lane=lane)
        if found is None:
            return None
        for path in leaves:
            total = total + _get(found[1], path.split("/")).astype(np.int64).sum(axis=0)
        updates = max([updates, *(int(_get(found[1], path.split("/"))) for path in calls)])
    return Utilities(np.asarray(total), listing["lanes"], updates)


def _put(tree: dict[str, Any], path: list[str], leaf: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = leaf


def _get(tree: Any, path: list[str]) -> Any:
    for name in path:
        tree = tree[name]
    return tree
