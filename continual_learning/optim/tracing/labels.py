"""The values of a traced program: arrays of labels in place of numbers.

An element of an activation carries the label of its unit. Data movement moves labels, element-wise
operations merge them, and a contraction with a parameter reads them and starts new ones. All of it
is computed by NumPy, on the host.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

NONE, MIXED = -1, -2


@dataclasses.dataclass(frozen=True, eq=False)
class Data:
    """An array that depends on no unit.

    Attributes:
      shape: shape of the array.
      given: whether it depends on inputs, or on parameters in a way that is not followed; else it
        is a constant of the program.
      inputs: the numbers of the inputs that it depends on.
      learned: whether it depends on parameters, in a way that is not followed.
    """

    shape: tuple[int, ...]
    given: bool = False
    inputs: frozenset[int] = frozenset()
    learned: bool = False

    @property
    def written(self) -> bool:
        """Whether parameters that are not followed make it from the input, as in an embedding."""
        return self.learned and bool(self.inputs)


@dataclasses.dataclass(frozen=True, eq=False)
class Entries:
    """Copies or multiples of parameter entries, which are zero where the entry is.

    Attributes:
      numbers: the number of the entry, counted over all parameters, or NONE; shaped like the array.
      factors: None for multiples by constants, which may be kernels. Else the labels on which the
        factors depend (none for inputs): these are scales, of a normalization or of the input.
      inputs: the numbers of the inputs on which the factors depend.
      written: whether parameters that are not followed made factors from the input.
    """

    numbers: np.ndarray
    factors: frozenset[int] | None = None
    inputs: frozenset[int] = frozenset()
    written: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.numbers.shape


@dataclasses.dataclass(frozen=True, eq=False)
class Activation:
    """An array that depends on units.

    Attributes:
      labels: per element, a unit's label, NONE (no unit, as in inputs and constants) or MIXED.
      position: per element, its place in the spatial axes of its layer, or NONE.
      sources: the labels on which MIXED elements depend.
      linear: whether it is a contraction plus biases and nothing else.
      written: whether parameters that are not followed made MIXED elements from the input.
    """

    labels: np.ndarray
    position: np.ndarray
    sources: frozenset[int] = frozenset()
    linear: bool = False
    written: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.labels.shape

    def all_sources(self) -> frozenset[int]:
        """Return every label on which the array depends."""
        return self.sources | self.own_labels()

    def own_labels(self) -> frozenset[int]:
        """Return every label that an element carries."""
        return frozenset(np.unique(self.labels[self.labels >= 0]).tolist())


Value = Data | Entries | Activation


def mixed(
    shape: Sequence[int], sources: frozenset[int], written: bool = False
) -> Activation | Data:
    """Return an array in which every element depends on all of `sources`.

    Args:
      shape: the shape of the array.
      sources: labels.
      written: whether parameters that are not followed made it from the input.
    """
    if not sources and not written:
        return Data(tuple(shape), given=True)
    labels, position = np.full(shape, MIXED), np.full(shape, NONE)
    return Activation(labels, position, sources, written=written)


def merged(values: Iterable[Data], shape: Sequence[int]) -> Data:
    """Return an array of this shape that depends on all of `values`."""
    values = list(values)
    return Data(
        tuple(shape),
        given=any(v.given for v in values),
        inputs=frozenset[int]().union(*(v.inputs for v in values)),
        learned=any(v.learned for v in values),
    )


def spread(act: Activation, shape: tuple[int, ...]) -> Activation:
    """Return the activation, broadcast to a shape."""
    labels, position = (np.broadcast_to(a, shape) for a in (act.labels, act.position))
    return dataclasses.replace(act, labels=labels, position=position)


def moved(function: Callable[..., Any], ins: Sequence[Value]) -> list[Value]:
    """Return the results of `function`, which moves elements of arrays, for `ins`.

    `ins` must not all be Data, and must not hold both Entries and Activations.
    """

    def filler(value: Value, field: str) -> int:
        return MIXED if field == "labels" and isinstance(value, Data) and value.written else NONE

    def part(kind: type, field: str) -> list[np.ndarray]:
        arrays = [
            getattr(v, field) if isinstance(v, kind) else np.full(v.shape, filler(v, field))
            for v in ins
        ]
        outs = function(*arrays)
        return outs if isinstance(outs, list) else [outs]

    entries = [v for v in ins if isinstance(v, Entries)]
    if entries:
        factors = [v.factors for v in entries if v.factors is not None]
        every = frozenset[int]().union(*factors) if factors else None
        inputs = frozenset[int]().union(*(v.inputs for v in entries))
        written = any(v.written for v in entries)
        return [Entries(numbers, every, inputs, written) for numbers in part(Entries, "numbers")]
    acts = [v for v in ins if isinstance(v, Activation)]
    sources = frozenset[int]().union(*(v.sources for v in acts))
    linear = all(v.linear for v in acts)
    written = any(v.written for v in ins if not isinstance(v, Entries))
    parts = zip(part(Activation, "labels"), part(Activation, "position"), strict=True)
    return [Activation(labels, position, sources, linear, written) for labels, position in parts]


def constant_along(array: np.ndarray, axes: Iterable[int]) -> bool:
    """Return whether `array` does not change along `axes`."""
    return all(bool((array == array.take([0], axis=a)).all()) for a in axes if array.size)


def first_along(array: np.ndarray, axes: Iterable[int]) -> np.ndarray:
    """Return the first slice along `axes`, which stay with size 1."""
    for axis in axes:
        array = array.take([0], axis=axis)
    return array


def varying(array: np.ndarray) -> list[int]:
    """Return the axes along which `array` changes."""
    return [a for a in range(array.ndim) if not constant_along(array, [a])]


def _broadcast(x: np.ndarray, shape: Sequence[int], dimensions: Sequence[int]) -> np.ndarray:
    spread = [1] * len(shape)
    for axis, extent in zip(dimensions, x.shape, strict=True):
        spread[axis] = extent
    return np.broadcast_to(x.reshape(spread), shape)


def _slice(x: np.ndarray, start: Sequence[int], limit: Sequence[int], strides: Any) -> np.ndarray:
    return x[tuple(map(slice, start, limit, strides or [1] * x.ndim))]


def _pad(x: np.ndarray, filler: np.ndarray, config: Sequence[tuple[int, int, int]]) -> np.ndarray:
    """Pad like `lax.pad` by (low, high, interior) per axis; low and high may be negative."""
    spread = [n + max(n - 1, 0) * gap for n, (_, _, gap) in zip(x.shape, config, strict=True)]
    wide = np.full(spread, filler.reshape(()))
    wide[tuple(slice(None, None, gap + 1) for _, _, gap in config)] = x
    grow = [(max(low, 0), max(high, 0)) for low, high, _ in config]
    wide = np.pad(wide, grow, constant_values=filler.reshape(()))
    cut = [(max(-low, 0), max(-high, 0)) for low, high, _ in config]
    return wide[tuple(slice(a, n - b) for n, (a, b) in zip(wide.shape, cut, strict=True))]


# Primitives that move elements and compute nothing; a list stands for several results.
MOVES: dict[str, Callable[..., Any]] = {
    "reshape": lambda x, **p: x.reshape(p["new_sizes"]),
    "transpose": lambda x, **p: x.transpose(p["permutation"]),
    "broadcast_in_dim": lambda x, **p: _broadcast(x, p["shape"], p["broadcast_dimensions"]),
    "squeeze": lambda x, **p: x.squeeze(tuple(p["dimensions"])),
    "rev": lambda x, **p: np.flip(x, p["dimensions"]),
    "slice": lambda x, **p: _slice(x, p["start_indices"], p["limit_indices"], p["strides"]),
    "concatenate": lambda *xs, **p: np.concatenate(xs, p["dimension"]),
    "stack": lambda *xs, **p: np.stack(xs, p["axis"]),
    "unstack": lambda x, **p: list(np.moveaxis(x, p["axis"], 0)),
    "pad": lambda x, filler, **p: _pad(x, filler, p["padding_config"]),
    "split": lambda x, **p: np.split(x, np.cumsum(p["sizes"])[:-1], p["axis"]),
} | dict.fromkeys(
    [
        "copy",
        "copy_p",
        "convert_element_type",
        "reduce_precision",
        "stop_gradient",
        "sharding_constraint",
        "reshard",
        "name",
    ],
    lambda x, **p: x,
)

# Element-wise primitives. In an additive one a unit may have several producers.
ADDITIVE = frozenset(["add", "add_any", "sub", "max", "min", "select_n"])
ELEMENTWISE = ADDITIVE | frozenset(
    [
        "mul",
        "div",
        "rem",
        "pow",
        "atan2",
        "nextafter",
        "neg",
        "sign",
        "floor",
        "ceil",
        "round",
        "is_finite",
        "exp",
        "exp2",
        "log",
        "log1p",
        "expm1",
        "tanh",
        "logistic",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "asinh",
        "acosh",
        "atanh",
        "sqrt",
        "rsqrt",
        "cbrt",
        "abs",
        "square",
        "integer_pow",
        "erf",
        "erfc",
        "erf_inv",
        "lgamma",
        "digamma",
        "gt",
        "ge",
        "lt",
        "le",
        "eq",
        "ne",
        "and",
        "or",
        "xor",
        "not",
        "clamp",
    ]
)
# An array of several units that is reduced to one number is a statistic of them.
REDUCTIONS = frozenset(
    [
        "reduce_sum",
        "reduce_max",
        "reduce_min",
        "reduce_prod",
        "reduce_and",
        "reduce_or",
        "argmax",
        "argmin",
        "cumsum",
        "cumprod",
        "cummax",
        "cummin",
        "cumlogsumexp",
    ]
)
WINDOWS = frozenset(
    ["reduce_window", "reduce_window_sum", "reduce_window_max", "reduce_window_min"]
)
# Collectives reduce over the axes that are numbers here; named axes belong to other devices, which
# have equal labels.
COLLECTIVES = frozenset(["psum", "pmax", "pmin"])
CONTRACTIONS = frozenset(["dot_general", "conv_general_dilated"])
CALLS = frozenset(
    [
        "jit",
        "pjit",
        "closed_call",
        "core_call",
        "remat",
        "remat2",
        "checkpoint",
        "custom_jvp_call",
        "custom_vjp_call",
        "custom_vjp_call_jaxpr",
        "custom_vmap_call",
    ]
)
