"""How methods look in every figure: one colour and one name each."""

from __future__ import annotations

from collections.abc import Iterable

# Wong's colours, which stay apart for every kind of colour vision.
COLOURS = {
    "adam": "#D55E00",
    "cpr": "#0072B2",
    "cbp": "#009E73",
    "redo": "#CC79A7",
    "regrama": "#E69F00",
    "shrink_perturb": "#56B4E9",
    "muon": "#7A5195",
    "adamw": "#8C564B",
}
NAMES = {
    "adam": "Adam",
    "adamw": "AdamW",
    "muon": "Muon",
    "cpr": "CPR",
    "cbp": "CBP",
    "redo": "ReDo",
    "regrama": "ReGraMa",
    "shrink_perturb": "Shrink & Perturb",
}
OTHERS = ("#4D4D4D", "#117733", "#882255", "#6699CC", "#999933", "#AA4466")
"""Colours of methods that are not in `COLOURS`, in order of their names."""


def colours(methods: Iterable[str]) -> dict[str, str]:
    """A colour for each method, in the order in which figures show them.

    Known methods come first and always have their own colour; the colours of others depend on
    which others are shown beside them.
    """
    shown = set(methods)
    others = sorted(shown - COLOURS.keys())
    known = {name: colour for name, colour in COLOURS.items() if name in shown}
    return known | {name: OTHERS[i % len(OTHERS)] for i, name in enumerate(others)}


def name(method: str) -> str:
    """As it is written in text; unknown ones as they are."""
    return NAMES.get(method, method)
