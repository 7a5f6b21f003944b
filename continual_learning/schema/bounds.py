"""Bounds of numbers, so that they fit into the types that they become, and into a machine."""

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
"""The smallest number above 0 that float32 does not flush to 0."""

SEEDS = 2**32
"""The number above all seeds, which are uint32."""

COUNT = 100_000
"""The largest number of tasks, seeds, lanes or configurations; a larger one is a typing error."""

UNITS = 2**20
"""The largest number of units of a layer, of environments, or of examples of a batch."""

WEIGHTS = 2**28
"""The largest number of weights between two layers."""

LETTERS = 100
"""The largest number of letters of a name, which becomes the name of a folder."""


def whole(value: Any) -> bool:
    """Return whether this is a whole number that fits into int32."""
    return type(value) is int and -INTEGERS <= value <= INTEGERS


def real(value: Any) -> bool:
    """Return whether this is a number that is finite in float32, and 0 there only if it is 0."""
    return type(value) in (int, float) and (value == 0 or SMALLEST <= abs(value) <= FLOATS)


def number(value: Any) -> bool:
    """Return whether a method may have this number: whole, real, or infinite (sharpness = inf)."""
    return whole(value) if type(value) is int else real(value) or value == math.inf


def seed(value: Any) -> bool:
    """Return whether this is a valid seed."""
    return type(value) is int and 0 <= value < SEEDS


def parse_whole(what: str, text: str, least: int = 0, most: int = INTEGERS) -> int:
    """Return a text such as `5` as a whole number; raise a StudyError if it is none.

    Args:
      what: the name of the number, for the error.
      text: digits alone.
      least: the smallest valid number.
      most: the largest valid number.
    """
    digits = text if text.isascii() and text.isdecimal() and len(text) < 20 else "-1"
    if not least <= int(digits) <= most:
        end = "" if most == INTEGERS else f" and at most {most:,}"
        raise StudyError(
            f"{what} must be a whole number, at least {least}{end}; got {shown(text)}."
        )
    return int(digits)


def parse_real(what: str, text: str, least: float = -FLOATS) -> float:
    """Return a text such as `0.5` as a number that fits into float32.

    Args:
      what: the name of the number, for the error.
      text: a number in the notation of Python.
      least: the smallest valid number.

    Raises:
      StudyError: if the text is no such number.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (real(value) and value >= least):
        end = "" if least == -FLOATS else f", at least {least:g}"
        raise StudyError(f"{what} must be a number{end}; got {shown(text)}.")
    return value


def check_layers(name: str, sizes: Sequence[int]) -> None:
    """Raise a StudyError if there is no layer, or two in succession have too many weights."""
    if not sizes:
        raise StudyError(f"{name} must name the size of at least one layer.")
    for one, other in itertools.pairwise(sizes):
        if one * other > WEIGHTS:
            raise StudyError(
                f"{name}: layers of {one:,} and {other:,} units have more than {WEIGHTS:,} weights "
                "between them; make them smaller."
            )


def largest_divisor(number: int, most: int) -> int:
    """Return the largest divisor of a number that is at most `most`."""
    lows = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return max(n for low in lows for n in (low, number // low) if n <= most)


def shown(value: Any, most: int = 80) -> str:
    """Return a value as an error shows it, a long one cut short."""
    if type(value) is int and abs(value) > 10**40:  # Python refuses to write thousands of digits
        return "a whole number of very many digits"
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}…"
