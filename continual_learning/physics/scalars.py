"""Numbers of many environments at once, in which zeros known at trace time cost nothing.

A robot's equations are full of zeros and ones: axes, a plane's normal, the unit columns of a
Jacobian. A `Scalar` holds either a Python float or an array [envs]. Arithmetic on floats happens
while the program is traced, a product with 0 is 0, and a product with 1 is the other factor. So
only numbers that depend on the state become part of the program.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Bool = Any
"""A condition: bool [envs], or NumPy's bool where it is known at trace time."""


@jax.tree_util.register_pytree_node_class
class Scalar:
    """A number per environment: a float that all share and the trace knows, or an array [envs].

    As a pytree it has the array as its only leaf, and no leaf if it is a float.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def tree_flatten(self) -> tuple[tuple[Any, ...], float | None]:
        """Return the array as a leaf, or the float as part of the structure."""
        return ((), self.value) if isinstance(self.value, float) else ((self.value,), None)

    @classmethod
    def tree_unflatten(cls, known: float | None, leaves: tuple[Any, ...]) -> Scalar:
        """Return the scalar from its leaf or its float."""
        return cls(leaves[0] if leaves else known)

    def __repr__(self) -> str:
        return f"Scalar({self.value!r})"

    def __neg__(self) -> Scalar:
        return Scalar(-self.value)

    def __add__(self, other: Number) -> Scalar:
        a, b = self.value, raw(other)
        if is_known(b, 0.0):
            return self
        return Scalar(b) if is_known(a, 0.0) else Scalar(a + b)

    def __sub__(self, other: Number) -> Scalar:
        a, b = self.value, raw(other)
        if is_known(b, 0.0):
            return self
        return Scalar(-b) if is_known(a, 0.0) else Scalar(a - b)

    def __mul__(self, other: Number) -> Scalar:
        a, b = self.value, raw(other)
        for one, two in ((a, b), (b, a)):
            if is_known(one, 0.0):
                return ZERO
            if is_known(one, 1.0):
                return Scalar(two)
            if is_known(one, -1.0):
                return Scalar(-two)
        return Scalar(a * b)

    def __truediv__(self, other: Number) -> Scalar:
        a, b = self.value, raw(other)
        if is_known(a, 0.0):
            return ZERO
        return self if is_known(b, 1.0) else Scalar(a / b)

    def __radd__(self, other: float) -> Scalar:
        return self + other

    def __rsub__(self, other: float) -> Scalar:
        return Scalar(other) - self

    def __rmul__(self, other: float) -> Scalar:
        return self * other

    def __rtruediv__(self, other: float) -> Scalar:
        return Scalar(other) / self

    def __lt__(self, other: Number) -> Bool:
        return _compared(self.value < raw(other))

    def __le__(self, other: Number) -> Bool:
        return _compared(self.value <= raw(other))

    def __gt__(self, other: Number) -> Bool:
        return _compared(self.value > raw(other))

    def __ge__(self, other: Number) -> Bool:
        return _compared(self.value >= raw(other))


Number = Scalar | float
ZERO = Scalar(0.0)
ONE = Scalar(1.0)


def raw(number: Number) -> Any:
    """Return the float or the array of a number."""
    return number.value if isinstance(number, Scalar) else float(number)


def is_known(value: Any, number: float) -> bool:
    """Return whether a value is this float at trace time."""
    return isinstance(value, float) and value == number


def _compared(result: Any) -> Bool:
    return np.bool_(result) if isinstance(result, bool) else result


def sqrt(x: Scalar) -> Scalar:
    """Return the square root."""
    known = isinstance(x.value, float)
    return Scalar(math.sqrt(x.value) if known else jnp.sqrt(x.value))


def sine_cosine(x: Scalar) -> tuple[Scalar, Scalar]:
    """Return the sine and the cosine."""
    if isinstance(x.value, float):
        return Scalar(math.sin(x.value)), Scalar(math.cos(x.value))
    return Scalar(jnp.sin(x.value)), Scalar(jnp.cos(x.value))


def raised(x: Scalar, exponent: float) -> Scalar:
    """Return `x` ≥ 0 raised to a known power."""
    if exponent == 1.0:
        return x
    if exponent == 2.0:
        return x * x
    return Scalar(x.value**exponent if isinstance(x.value, float) else jnp.power(x.value, exponent))


def where(condition: Bool, x: Number, y: Number) -> Scalar:
    """Return `x` where the condition holds, else `y`."""
    a, b = raw(x), raw(y)
    if isinstance(condition, np.bool_):
        return Scalar(a if condition else b)
    if isinstance(a, float) and is_known(b, a):
        return Scalar(a)
    return Scalar(jnp.where(condition, a, b))


def both(one: Bool, other: Bool) -> Bool:
    """Return whether both hold, at trace time if one of them is known not to hold."""
    for known, left in ((one, other), (other, one)):
        if isinstance(known, np.bool_):
            return left if known else known
    return one & other


def maximum(x: Number, y: Number) -> Scalar:
    """Return the larger of two, and NaN if either is NaN."""
    a, b = raw(x), raw(y)
    if isinstance(a, float) and isinstance(b, float):
        return Scalar(max(a, b))
    if isinstance(a, float):
        a, b = b, a
    # Triton's maximum, which `in_one_kernel` would use, ignores NaN.
    return Scalar(jnp.where((a >= b) | (a != a), a, b))


def minimum(x: Number, y: Number) -> Scalar:
    """Return the smaller of two, and NaN if either is NaN."""
    return -maximum(-_scalar(x), -_scalar(y))


def clip(x: Scalar, low: Number, high: Number) -> Scalar:
    """Return `x` clipped to bounds."""
    return minimum(maximum(x, low), high)


def total(terms: Any) -> Scalar:
    """Return the sum of terms, in pairs for small rounding errors and short chains of sums."""
    terms = [term for term in terms if not is_known(term.value, 0.0)]
    while len(terms) > 1:
        pairs = zip(terms[::2], terms[1::2], strict=False)
        terms = [a + b for a, b in pairs] + terms[len(terms) & ~1 :]
    return terms[0] if terms else ZERO


def scalars(array: jax.Array) -> tuple[Scalar, ...]:
    """Return an array [n, envs] as n scalars."""
    return tuple(Scalar(array[i]) for i in range(len(array)))


def stacked(numbers: Any, like: jax.Array) -> jax.Array:
    """Return nested sequences of scalars as an array [..., envs] of the type of `like` [envs]."""
    if isinstance(numbers, Scalar):
        return jnp.broadcast_to(jnp.asarray(numbers.value, like.dtype), like.shape)
    if not len(numbers):
        return jnp.zeros((0, *like.shape), like.dtype)
    return jnp.stack([stacked(number, like) for number in numbers])


def _scalar(number: Number) -> Scalar:
    return number if isinstance(number, Scalar) else Scalar(float(number))
