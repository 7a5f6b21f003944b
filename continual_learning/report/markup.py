"""HTML in which every text is escaped, and numbers as they are written on the page."""

from __future__ import annotations

import html
import math

from continual_learning.analysis import style
from continual_learning.analysis.summary import Estimate


class Markup(str):
    """Text that is HTML already: made by `element` alone."""


def element(tag: str, *children: object, **attributes: object) -> Markup:
    """An element; children that are no Markup are escaped.

    Attributes: `class_` is `class`, other underscores are hyphens; True is an attribute without a
    value, and one that is None or False is left out.
    """
    said = []
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        name = name.rstrip("_").replace("_", "-")
        said.append(f" {name}" if value is True else f' {name}="{html.escape(str(value))}"')
    return Markup(f"<{tag}{''.join(said)}>{join(*children)}</{tag}>")


def join(*children: object) -> Markup:
    """Children one after the other; None is nothing."""
    parts = (c if isinstance(c, Markup) else html.escape(str(c)) for c in children if c is not None)
    return Markup("".join(parts))


def number(value: float, share: bool = False, digits: int = 2) -> str:
    """A value to about four figures; a share as a percentage, to so many digits."""
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
    """A change, with its sign; that of a share in percentage points."""
    text = number(value, share, digits=1).replace(" %", " pp")
    return f"+{text}" if value > 0 else text


def interval(estimate: Estimate, share: bool = False, write=number) -> str:
    """A value and its interval, if it has one."""
    value, *ends = (write(each, share) for each in estimate)
    low, high = (end.partition(" ")[0] for end in ends)  # the unit is told once
    return value if not math.isfinite(estimate.low) else f"{value} [{low}, {high}]"


def steps(value: float) -> str:
    """A number of steps, short: 20M."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{unit}"
    return f"{value:.4g}"


def name(label: str) -> str:
    """A method as it is written on the page: "cpr (max_reset=0.01)" is "CPR (max_reset=0.01)"."""
    base, space, rest = label.partition(" ")
    return f"{style.name(base)}{space}{rest}"


def listed(names: list[str], most: int = 12) -> str:
    """Names in a sentence."""
    shown = names if len(names) <= most else [*names[:most], f"{len(names) - most} more"]
    if len(shown) < 2:
        return "".join(shown)
    return f"{', '.join(shown[:-1])} and {shown[-1]}"
