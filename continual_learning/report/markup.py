"""HTML in which every text is escaped, and the page's format of numbers."""

from __future__ import annotations

import html
import math

from continual_learning.analysis import style
from continual_learning.analysis.summary import Estimate


class Markup(str):
    """Text that is HTML already; only this module makes it."""


def element(tag: str, *children: object, **attributes: object) -> Markup:
    """Return an element; children that are not Markup are escaped.

    In names of attributes, `class_` stands for `class` and other underscores for hyphens. True
    gives an attribute without a value; an attribute that is None or False is left out.
    """
    said = []
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        name = name.rstrip("_").replace("_", "-")
        said.append(f" {name}" if value is True else f' {name}="{html.escape(str(value))}"')
    return Markup(f"<{tag}{''.join(said)}>{join(*children)}</{tag}>")


def join(*children: object) -> Markup:
    """Return the children one after the other, without those that are None."""
    parts = (c if isinstance(c, Markup) else html.escape(str(c)) for c in children if c is not None)
    return Markup("".join(parts))


def number(value: float, share: bool = False, digits: int = 2) -> str:
    """Return a value with about four digits, or a share as a percentage with `digits` decimals."""
    if not math.isfinite(value):
        return "—"
    size = abs(value)
    if share:
        text = f"{100 * value:.{digits}f} %"
    elif size and (size >= 1e6 or size < 1e-3):
        text = f"{value:.2e}"
    else:
        digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 4
        text = f"{value:,.{digits}f}"
    return text.replace("-", "−")


def difference(value: float, share: bool = False) -> str:
    """Return a change with its sign; the change of a share is in percentage points."""
    text = number(value, share, digits=1).replace(" %", " pp")
    return f"+{text}" if value > 0 else text


def interval(estimate: Estimate, share: bool = False, write=number) -> str:
    """Return a value and its interval, if it has one."""
    value, *ends = (write(each, share) for each in estimate)
    low, high = (end.partition(" ")[0] for end in ends)  # the unit is shown once
    return value if not math.isfinite(estimate.low) else f"{value} [{low}, {high}]"


def steps(value: float) -> str:
    """Return a number of steps in short form: 20M."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{unit}"
    return f"{value:.4g}"


def name(label: str) -> str:
    """Return a method's name on the page: "CPR (max_reset=0.01)" for "cpr (max_reset=0.01)"."""
    base, space, rest = label.partition(" ")
    return f"{style.name(base)}{space}{rest}"


def listed(names: list[str], most: int = 12) -> str:
    """Return names as a list in a sentence; beyond `most` of them, the number of the others."""
    shown = names if len(names) <= most else [*names[:most], f"{len(names) - most} more"]
    if len(shown) < 2:
        return "".join(shown)
    return f"{', '.join(shown[:-1])} and {shown[-1]}"
