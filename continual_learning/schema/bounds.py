"""Bounds of numbers: what fits into the types that they become, and into a machine."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from continual_learning.schema.errors import StudyError

INTEGERS = 2**31 - 1
"""The largest whole number of an experiment: counters and sizes are int32."""

FLOATS = 3.4028234663852886e38
"""The largest number of an experiment: it becomes float32."""

SMALLEST = 2.0**-126
"""The smallest number above 0 that is not flushed to 0 in float32."""

SEEDS = 2**32
"""Seeds are uint32: below this."""

COUNT = 100_000
"""Tasks, seeds, lanes and configurations at most: more are a slip of the pen."""

UNITS = 2**20
"""Units of a layer, environments and examples of a batch at most."""

WEIGHTS = 2**28
"""Weights between two layers at most."""

LETTERS = 100
"""Of a name at most: it becomes that of a folder."""


def whole(value: Any) -> bool:
    """Whether this is a whole number that fits into int32."""
    return type(value) is int and -INTEGERS <= value <= INTEGERS


def real(value: Any) -> bool:
    """Whether this is a number that is finite in float32, and 0 there only if it is 0."""
    return type(value) in (int, float) and (value == 0 or SMALLEST <= abs(value) <= FLOATS)


def number(value: Any) -> bool:
    """Whether this is a number of a method: whole, real, or without bound (sharpness = inf)."""
    return whole(value) if type(value) is int else real(value) or value == math.inf


def seed(value: Any) -> bool:
    """Whether this is a seed."""
    return type(value) is int and 0 <= value < SEEDS


def parse_whole(what: str, text: str, least: int = 0, most: int = INTEGERS) -> int:
    """`5` as a number.

    Args:
      what: it is, for the error.
      text: digits alone.
      least: the smallest that is valid.
      most: the largest.
    """
    digits = text if text.isascii() and text.isdecimal() and len(text) < 20 else "-1"
    if not least <= int(digits) <= most:
        end = "" if most == INTEGERS else f" and at most {most:,}"
        raise StudyError(
            f"{what} must be a whole number, at least {least}{end}; got {shown(text)}."
        )
    return int(digits)


def parse_real(what: str, text: str, least: float = -FLOATS) -> float:
    """`0.5` as a number that fits into float32."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (real(value) and value >= least):
        end = "" if least == -FLOATS else f", at least {least:g}"
        raise StudyError(f"{what} must be a number{end}; got {shown(text)}.")
    return value


def check_layers(name: str, sizes: Sequence[int]) -> None:
    """Raises unless layers of these sizes, at least one, can be held one after the other."""
    if not sizes:
        raise StudyError(f"{name} must name the size of at least one layer.")
    for one, other in itertools.pairwise(sizes):
        if one * other > WEIGHTS:
            raise StudyError(
                f"{name}: layers of {one:,} and {other:,} units have more than {WEIGHTS:,} weights "
                "between them; make them smaller."
            )


def largest_divisor(number: int, most: int) -> int:
    """The largest divisor of a number that is at most `most`."""
    lows = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return max(n for low in lows for n in (low, number // low) if n <= most)


def shown(value: Any, most: int = 80) -> str:
    """A value as an error shows it: not all of one that is endless."""
    if type(value) is int and abs(value) > 10**40:  # Python refuses to write thousands of digits
        return "a whole number of very many digits"
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}…"
