"""Distributions of the values that parameters have in tasks; describing them needs no JAX."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import jax

Draw = Callable[["jax.Array", "jax.Array"], "jax.Array"]
"""A function (key of the task, number of the task int32 []) -> value of the parameter []."""


@dataclasses.dataclass(frozen=True)
class Uniform:
    """The uniform distribution on [low, high)."""

    low: float
    high: float

    def __post_init__(self):
        _check_range(self)

    def __call__(self, key: jax.Array, index: jax.Array) -> jax.Array:
        """Return the value [] of the parameter in the task."""
        import jax

        return jax.random.uniform(key, (), jax.numpy.float32, self.low, self.high)


@dataclasses.dataclass(frozen=True)
class LogUniform:
    """The log-uniform distribution between low and high."""

    low: float
    high: float

    def __post_init__(self):
        _check_range(self)
        if self.low <= 0:
            raise ValueError(f"log_uniform: low must be above 0, got {self.low}.")

    def __call__(self, key: jax.Array, index: jax.Array) -> jax.Array:
        """Return the value [] of the parameter in the task."""
        import jax

        low, high = math.log(self.low), math.log(self.high)
        return jax.numpy.exp(jax.random.uniform(key, (), jax.numpy.float32, low, high))


@dataclasses.dataclass(frozen=True)
class Integers:
    """The uniform distribution on the whole numbers from low to high, both included."""

    low: int
    high: int

    def __post_init__(self):
        _check_whole("integers", self)

    def __call__(self, key: jax.Array, index: jax.Array) -> jax.Array:
        """Return the value [] of the parameter in the task."""
        import jax

        low, high = int(self.low), int(self.high)
        return jax.random.randint(key, (), low, high + 1).astype(jax.numpy.float32)


@dataclasses.dataclass(frozen=True)
class Interval:
    """One end of an interval between two different whole numbers from low to high, both included.

    Both ends are drawn from the same key, that of the parameter `of`.
    """

    low: float
    high: float
    end: Literal["low", "high"] = "low"
    of: str = ""

    def __post_init__(self):
        _check_whole("interval", self)
        if self.low == self.high:
            raise ValueError(f"interval: two different numbers are needed, got {self.low} twice.")

    def __call__(self, key: jax.Array, index: jax.Array) -> jax.Array:
        """Return the value [] of the parameter in the task."""
        import jax

        keys, low, high = jax.random.split(key), int(self.low), int(self.high)
        one = jax.random.randint(keys[0], (), low, high + 1)
        other = jax.random.randint(keys[1], (), low, high)
        other += other >= one  # `other` is any number but `one`, with equal probabilities
        choose = jax.numpy.minimum if self.end == "low" else jax.numpy.maximum
        return choose(one, other).astype(jax.numpy.float32)


class Values:
    """A list of values: the tasks take them in that order, and start over after the last one."""

    def __init__(self, *values: float):
        if not values:
            raise ValueError("values: at least one value is needed.")
        self.values = tuple(float(value) for value in values)

    def __call__(self, key: jax.Array, index: jax.Array) -> jax.Array:
        """Return the value [] of the parameter in the task."""
        import jax

        return jax.numpy.asarray(self.values, jax.numpy.float32)[index % len(self.values)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Values) and self.values == other.values

    def __hash__(self) -> int:
        return hash(self.values)

    def __repr__(self) -> str:
        return f"Values{self.values}"


Known = Uniform | LogUniform | Integers | Interval | Values
DRAWS: dict[str, Callable[..., Known]] = {
    "uniform": Uniform,
    "log_uniform": LogUniform,
    "integers": Integers,
    "interval": Interval,
    "values": Values,
}


def span(draw: Known) -> tuple[float, float]:
    """Return the smallest and the largest value that can be drawn."""
    if isinstance(draw, Values):
        return min(draw.values), max(draw.values)
    return draw.low, draw.high


def parse_draw(text: str) -> Known:
    """Parse a distribution: `"log_uniform(0.02, 2.0)"` becomes `LogUniform(0.02, 2.0)`.

    A single number becomes a constant.
    """
    valid = (
        "a number, uniform(a, b), log_uniform(a, b), integers(a, b), values(a, b, …) or, for "
        "delays, interval(a, b)"
    )
    match = re.fullmatch(r"\s*(?:(\w+)\s*\((.*)\)|([^()]+))\s*", text)
    if not match or (match[1] is not None and match[1] not in DRAWS):
        raise ValueError(f"{text!r} describes no way to draw a parameter. Valid: {valid}.")
    try:
        listed = match[3] if match[1] is None else match[2]
        numbers = [float(part) for part in listed.split(",")]
        if not all(map(math.isfinite, numbers)):
            raise ValueError("numbers must be finite")
        name = match[1] or "values"
        if name != "values" and len(numbers) != 2:
            raise ValueError(f"two numbers are needed, got {len(numbers)}")
        return DRAWS[name](*numbers)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{text!r}: {error}. Valid: {valid}.") from None


def parse_changes(text: str) -> dict[str, Known]:
    """Parse `"friction = log_uniform(0.02, 2.0); gravity = 0.5"` into {parameter: draw}.

    `"action_delay = interval(0, 8)"` draws the lower end of the interval, `action_delay`, and its
    higher end, `action_delay_high`.
    """
    changes = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, equals, draw = (piece.strip() for piece in part.partition("="))
        if not equals or not name.isidentifier():
            raise ValueError(
                f"{part!r} changes no parameter: write PARAMETER = DRAW, such as "
                "friction = log_uniform(0.02, 2.0)."
            )
        found = parse_draw(draw)
        drawn = {name: found}
        if isinstance(found, Interval):
            drawn = {
                name: dataclasses.replace(found, of=name),
                f"{name}_high": dataclasses.replace(found, end="high", of=name),
            }
        for each in drawn:
            if each in changes:
                raise ValueError(f"{each} is given twice in {text!r}.")
        changes |= drawn
    return changes


def _check_range(draw: Uniform | LogUniform | Integers | Interval) -> None:
    if draw.low > draw.high:
        raise ValueError(f"low must not be above high, got {draw.low} and {draw.high}.")


def _check_whole(name: str, draw: Integers | Interval) -> None:
    _check_range(draw)
    if int(draw.low) != draw.low or int(draw.high) != draw.high:
        raise ValueError(f"{name}: whole numbers are needed, got {draw.low}, {draw.high}.")
