"""How methods look in every figure: every method has one color and one name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from continual_learning.optim import registry


class Look(NamedTuple):
    """How a method looks.

    Attributes:
      label: its name in text.
      color: "#RRGGBB"; None for any color that is free.
    """

    label: str
    color: str | None


# A color of Wong's palette, as reset methods have, and two that differ clearly from all of them.
_OPTIMIZERS = {
    "adam": Look("Adam", "#D55E00"),
    "muon": Look("Muon", "#7A5195"),
    "adamw": Look("AdamW", "#8C564B"),
}
OTHERS = (
    *("#4D4D4D", "#117733", "#882255", "#6699CC", "#999933", "#AA4466", "#332288", "#DDCC77"),
    *("#44AA99", "#661100", "#F781BF", "#A6D854", "#BAB0AC", "#1F3A93", "#B3742E"),
)
"""Colors for methods without one of their own, in the order of their names. The first six differ
clearly from one another."""

_recorded: dict[str, Look] = {}  # methods whose code is not installed


def note(study: Mapping[str, Any]) -> None:
    """Remember how a study recorded the looks of methods whose code is not installed."""
    match study.get("looks"):
        case {**recorded}:
            for method, look in recorded.items():
                _note(method, look)


def looks() -> dict[str, Look]:
    """Return the look of every method, in the order in which figures show them."""
    entries = registry.registered().items()
    resets = {name: Look(entry.label, entry.color) for name, entry in entries}
    adam = {"adam": _OPTIMIZERS["adam"]}
    return adam | resets | _OPTIMIZERS | {n: x for n, x in _recorded.items() if n not in resets}


def colors(methods: Iterable[str]) -> dict[str, str]:
    """Return a color for each method, in the order in which figures show them.

    Methods with a color of their own come first and always have it; the colors of the others depend
    on the methods that are shown beside them.
    """
    shown, known = set(methods), looks()
    own = {name: look.color for name, look in known.items() if name in shown and look.color}
    free = [color for color in OTHERS if color not in own.values()] or OTHERS
    others = sorted(shown - own.keys())
    return own | {name: free[i % len(free)] for i, name in enumerate(others)}


def name(method: str) -> str:
    """Return the name of a method in text; an unknown method keeps its own."""
    found = looks().get(method)
    return method if found is None else found.label


def _note(method: str, look: Any) -> None:
    taken = {other.label for name, other in looks().items() if name != method}
    match look:
        case {"label": label, **rest} if registry.is_label(label) and label not in taken:
            color = rest.get("color")
            _recorded[method] = Look(label, color if registry.is_color(color) else None)
