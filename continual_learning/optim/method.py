"""What a reset method is: the base class, and what it sees of a training step.

A method of your own is a class decorated with `@reset_method`. The least it needs is `due` (when
to reset) and `amount` (which units, how far); everything else has a default. See
docs/your_own_method.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.core import Tracer

from continual_learning.optim import fresh, rewrite
from continual_learning.optim.units import UnitGraph

Number = float | int | jax.Array
Params = Mapping[str, jax.Array]  # {path: array}
_ARRAYS = (jax.Array, np.ndarray, np.number)


class Choice(NamedTuple):
    """What the metadata of a field says if its value is fixed when a program is traced.

    Attributes:
      valid: the texts that it may be; empty where it is true or false, or anything.
      or_number: whether it may be a number as well, which is traced as others are.
    """

    valid: tuple[str, ...] = ()
    or_number: bool = False


def choice(default: Any, *valid: str, or_number: bool = False, kw_only: bool = False) -> Any:
    """Declare a field that is fixed when a program is traced; all other fields are numbers.

    Args:
      default: its value unless given: true or false, or one of `valid`.
      valid: the texts that it may be.
      or_number: whether it may be a number as well, which is traced as others are.
      kw_only: as for `dataclasses.field`.
    """
    metadata = {"choice": Choice(valid, or_number)}
    return dataclasses.field(default=default, kw_only=kw_only, metadata=metadata)


def choice_of(field: dataclasses.Field) -> Choice | None:
    """Return what a field's metadata says; true, false and text are choices without being told."""
    implied = Choice() if isinstance(field.default, (bool, str)) else None
    return field.metadata.get("choice", implied)


def number_names(cls: type[ResetMethod]) -> list[str]:
    """Return the names of a method's fields that may be traced numbers."""
    choices = {f.name: choice_of(f) for f in dataclasses.fields(cls) if f.name != "key"}
    return [name for name, found in choices.items() if found is None or found.or_number]


class Step(NamedTuple):
    """What a method sees of one call of `update`.

    Attributes:
      t: int32 [], 0 in the first call.
      key: a key for this call.
      grads: {path: array}, the gradients as they came in.
      params: {path: array}, the parameters after the inner optimizer's step.
      features: {layer: [batch, *positions, units]}, where the method requires them.
      sample_scores: {layer: [units]}, likewise.
    """

    t: jax.Array
    key: jax.Array
    grads: Params
    params: Params
    features: Mapping[str, jax.Array]
    sample_scores: Mapping[str, jax.Array]


class Amount(NamedTuple):
    """How far each unit is reset, and why.

    Attributes:
      reset: [layers, width] in [0, 1]; 1 is a fresh unit, 0 an untouched one.
      utility: [layers, width], normalised by the layer mean; layers where it is not finite are
        left alone.
      threshold: [], the utility below which the method counts a unit as low.
    """

    reset: jax.Array
    utility: jax.Array
    threshold: Number = 0.1


@dataclasses.dataclass(frozen=True)
class ResetMethod:
    """Base of all reset methods; a pytree whose leaves are its numbers.

    Attributes:
      init: how fresh kernels are drawn. "as_initialised": from a normal distribution with the
        standard deviation that each kernel had when the optimizer's `init` saw it (each copy of
        its own, where a kernel holds several); a kernel that was constant then is redrawn as 0.
        Or an initializer `(key, shape, dtype) -> array`, called in [in, out] or HWIO, or the name
        of one ("lecun_normal").
      key: an integer or a JAX key. Bits of the initial parameters are folded into it, so that
        seeds and networks draw differently without being told to.
    """

    init: Callable[..., jax.Array] | str = choice(fresh.AS_INITIALISED, kw_only=True)
    key: Any = dataclasses.field(default=0, kw_only=True)

    requires: ClassVar[tuple[str, ...]] = ()
    """Which of "features" and "sample_scores" `update` must be given."""

    outgoing: ClassVar[rewrite.Outgoing] = "before"
    """Outgoing entries shrink before incoming ones are redrawn, after, or are "kept"."""

    resets: ClassVar[bool] = True
    """Whether it resets at all; methods that only `wrap` the optimizer do not."""

    def __post_init__(self):
        name = type(self).__name__
        fresh.check_init(name, self.init)
        for field in dataclasses.fields(self):
            found, value = choice_of(field) or Choice(), getattr(self, field.name)
            if found.valid and value not in found.valid and not found.or_number:
                valid = " or ".join(map(repr, found.valid))
                raise ValueError(f"{name}: {field.name} must be {valid}, got {value!r}.")

    # Every step --------------------------------------------------------------------------------

    def wrap(
        self, tx: optax.GradientTransformation, units: Callable[[Any], UnitGraph]
    ) -> optax.GradientTransformation:
        """Return the inner optimizer with what the method changes in every step.

        Args:
          tx: the inner optimizer.
          units: gives the graph of a parameter tree.
        """
        del units
        return tx

    # When, and how far -----------------------------------------------------------------------

    def start(self, graph: UnitGraph, dtype: Any) -> Any:
        """The method's state: a pytree of arrays whose structure does not depend on the graph."""
        del graph, dtype
        return ()

    def observe(self, graph: UnitGraph, state: Any, step: Step) -> tuple[Any, jax.Array | None]:
        """Every step: the new state, and bool [layers, 1], which layers were finite."""
        del graph, step
        return state, None

    def due(self, state: Any, t: jax.Array) -> jax.Array:
        """Whether this call resets, bool []."""
        raise NotImplementedError

    def amount(self, graph: UnitGraph, state: Any, step: Step) -> Amount:
        """On calls that are due: how far each unit is reset."""
        raise NotImplementedError

    def finish(self, state: Any, amount: Amount) -> Any:
        """On calls that are due: the state after the reset."""
        del amount
        return state

    # How -------------------------------------------------------------------------------------

    def rewrite(
        self, graph: UnitGraph, state: Any, params: Params, amount: Amount, fresh: Params
    ) -> dict[str, jax.Array]:
        """The changed parameters, {path: array}."""
        del state
        return rewrite.reset_units(
            graph, params, amount.reset, fresh, outgoing=self.outgoing, bias=True
        )

    def keep(self, graph: UnitGraph, amount: Amount) -> dict[str, jax.Array]:
        """What is kept of the moments of the changed parameters, {path: share}; {} for all."""
        return rewrite.kept(graph, amount.reset, outgoing=self.outgoing, bias=True)

    def drawn(self, graph: UnitGraph) -> list[str]:
        """Paths of the kernels that `rewrite` needs fresh draws of."""
        return list(dict.fromkeys(i.param for layer in graph.layers for i in layer.incoming))


Method = TypeVar("Method", bound=type[ResetMethod])


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def reset_method(cls: Method) -> Method:
    """Makes a subclass of `ResetMethod` a frozen dataclass and a pytree.

    Fields declared with `choice`, and those that hold true, false or text, are static; all others
    are leaves, so that they may be arrays or tracers.
    """
    cls = dataclasses.dataclass(frozen=True)(cls)
    fields = dataclasses.fields(cls)

    def flatten_with_keys(method):
        values = {f: getattr(method, f.name) for f in fields}
        static = tuple((f.name, v) for f, v in values.items() if _is_static(f, v))
        leaves = [(f.name, v) for f, v in values.items() if not _is_static(f, v)]
        keyed = [(jax.tree_util.GetAttrKey(name), value) for name, value in leaves]
        return keyed, (static, tuple(name for name, _ in leaves))

    def flatten(method):
        keyed, rest = flatten_with_keys(method)
        return [value for _, value in keyed], rest

    def unflatten(rest, children):
        # Not through __init__: tree operations put bools, None and other placeholders here, which
        # are no numbers to be checked.
        static, leaves = rest
        method = object.__new__(cls)
        for name, value in (*static, *zip(leaves, children, strict=True)):
            object.__setattr__(method, name, value)
        return method

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


def _is_static(field: dataclasses.Field, value: Any) -> bool:
    found = choice_of(field)
    return found is not None and (not found.or_number or isinstance(value, str))


def numbers(method: ResetMethod, dtype: Any) -> ResetMethod:
    """The method with its numbers as strongly typed arrays, floats in `dtype`."""

    def as_array(x: Any) -> jax.Array:
        x = jnp.asarray(x)
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            return x
        return x.astype(dtype if jnp.issubdtype(x.dtype, jnp.floating) else jnp.int32)

    return jax.tree.map(as_array, dataclasses.replace(method, key=0))


def periodic(t: jax.Array, every: Number) -> jax.Array:
    """True at every, 2·every, …; never at 0."""
    return (t > 0) & (t % every == 0)


def check_range(method: ResetMethod, **bounds: tuple[float, float]) -> None:
    """Raises if a number of the method lies outside its bounds; tracers are not looked at."""
    for name, (low, high) in bounds.items():
        value = getattr(method, name)
        if isinstance(value, str):
            raise TypeError(f"{type(method).__name__}: {name} must be a number, got {value!r}.")
        if isinstance(value, Tracer) or not isinstance(value, (float, int, *_ARRAYS)):
            continue
        if not np.all((np.asarray(value) >= low) & (np.asarray(value) <= high)):
            upper = "" if high == np.inf else f" and at most {high:g}"
            raise ValueError(
                f"{type(method).__name__}: {name} must be at least {low:g}{upper}, got {value}."
            )
