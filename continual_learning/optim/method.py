"""The base class of reset methods, and their view of a training step.

A method of your own is a class decorated with `@reset_method`. It must define `due` (when to reset)
and `amount` (which units, how far); all else has a default. See docs/your_own_method.md.
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
    """The metadata of a field whose value is fixed when a program is traced.

    Attributes:
      valid: the valid texts; empty if the field is true or false, or takes any value.
      or_number: whether it may also be a number, which is traced like others.
    """

    valid: tuple[str, ...] = ()
    or_number: bool = False


def choice(default: Any, *valid: str, or_number: bool = False, kw_only: bool = False) -> Any:
    """Declare a field that is fixed when a program is traced; all other fields are numbers.

    Args:
      default: its value unless given: true or false, or one of `valid`.
      *valid: the valid texts.
      or_number: whether it may also be a number, which is traced like others.
      kw_only: as for `dataclasses.field`.
    """
    metadata = {"choice": Choice(valid, or_number)}
    return dataclasses.field(default=default, kw_only=kw_only, metadata=metadata)


def choice_of(field: dataclasses.Field) -> Choice | None:
    """Return the choice of a field or None; fields with a bool or text as default imply one."""
    implied = Choice() if isinstance(field.default, (bool, str)) else None
    return field.metadata.get("choice", implied)


def number_names(cls: type[ResetMethod]) -> list[str]:
    """Return the names of a method's fields that may be traced numbers."""
    choices = {f.name: choice_of(f) for f in dataclasses.fields(cls) if f.name != "key"}
    return [name for name, found in choices.items() if found is None or found.or_number]


class Step(NamedTuple):
    """A method's view of one call of `update`.

    Attributes:
      t: int32 [], 0 in the first call.
      key: a key for this call.
      grads: {path: array}, the gradients that `update` received.
      params: {path: array}, the parameters after the inner optimizer's step.
      features: {layer: [batch, *positions, units]} if the method requires them.
      sample_scores: {layer: [units]} if the method requires them.
      task: int32 [], the number of the task, counted from 0; 0 unless `update` received it.
    """

    t: jax.Array
    key: jax.Array
    grads: Params
    params: Params
    features: Mapping[str, jax.Array]
    sample_scores: Mapping[str, jax.Array]
    task: jax.Array | np.ndarray = np.zeros((), np.int32)


class Initial(NamedTuple):
    """A part of a state that describes the network with which training began.

    An agent that makes a new optimizer at the start of a task keeps these parts of the old one.
    """

    value: Any


def with_initial(state: Any, old: Any) -> Any:
    """Return a state whose parts that are `Initial` are those of an old state of its structure."""
    return jax.tree.map(
        lambda new, old: old if isinstance(new, Initial) else new,
        state,
        old,
        is_leaf=lambda node: isinstance(node, Initial),
    )


class Amount(NamedTuple):
    """The amount by which each unit is reset, and the utility that decides it.

    Attributes:
      reset: [layers, width] in [0, 1]; 1 is a fresh unit, 0 an untouched one.
      utility: [layers, width], normalized by the layer mean; layers where it is not finite are
        left alone.
      threshold: [], the utility below which the method counts a unit as low.
    """

    reset: jax.Array
    utility: jax.Array
    threshold: Number = 0.1


@dataclasses.dataclass(frozen=True)
class ResetMethod:
    """The base of all reset methods, a pytree whose leaves are its numbers.

    Attributes:
      init: how fresh kernels are drawn. "as_initialized" draws from a normal distribution with the
        standard deviation of the kernel when the optimizer's `init` received it (of each copy, if
        a kernel holds several); a kernel that was constant then is redrawn as 0. An initializer
        `(key, shape, dtype) -> array`, called in [in, out] or HWIO, or its name ("lecun_normal")
        is also valid.
      key: an integer or a JAX key. Bits of the initial parameters are folded into it, so that
        seeds and networks draw differently with the same key.
    """

    init: Callable[..., jax.Array] | str = choice(fresh.AS_INITIALIZED, kw_only=True)
    key: Any = dataclasses.field(default=0, kw_only=True)

    requires: ClassVar[tuple[str, ...]] = ()
    """Those of "features", "sample_scores" and "task" that `update` must receive."""

    outgoing: ClassVar[rewrite.Outgoing] = "before"
    """Outgoing entries shrink "before" or "after" incoming ones are redrawn, or are "kept"."""

    resets: ClassVar[bool] = True
    """Whether the method resets units; methods that only `wrap` the optimizer do not."""

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
        """Return the inner optimizer with the changes that the method makes in every step.

        Args:
          tx: the inner optimizer.
          units: gives the graph of a parameter tree.
        """
        del units
        return tx

    # When, and how far -----------------------------------------------------------------------

    def start(self, graph: UnitGraph, dtype: Any) -> Any:
        """Return the method's state, a pytree of arrays of the same structure for all graphs."""
        del graph, dtype
        return ()

    def observe(self, graph: UnitGraph, state: Any, step: Step) -> tuple[Any, jax.Array | None]:
        """Return the state after a step, and which layers were finite, bool [layers, 1] or None.

        Args:
          graph: the units.
          state: the method's state.
          step: the step.
        """
        del graph, step
        return state, None

    def due(self, state: Any, t: jax.Array) -> jax.Array:
        """Return whether call `t` resets, bool []."""
        raise NotImplementedError

    def amount(self, graph: UnitGraph, state: Any, step: Step) -> Amount:
        """Return by how much each unit is reset in a call that is due.

        Args:
          graph: the units.
          state: the method's state.
          step: the step.
        """
        raise NotImplementedError

    def finish(self, state: Any, amount: Amount) -> Any:
        """Return the state after a reset."""
        del amount
        return state

    # How -------------------------------------------------------------------------------------

    def rewrite(
        self, graph: UnitGraph, state: Any, params: Params, amount: Amount, fresh: Params
    ) -> dict[str, jax.Array]:
        """Return the parameters that a reset changes, {path: array}.

        Args:
          graph: the units.
          state: the method's state.
          params: {path: array}.
          amount: the result of `amount`.
          fresh: ξ, {path: array} for the kernels of `drawn`.
        """
        del state
        return rewrite.reset_units(
            graph, params, amount.reset, fresh, outgoing=self.outgoing, bias=True
        )

    def keep(self, graph: UnitGraph, amount: Amount) -> dict[str, jax.Array]:
        """Return the shares of moments that a reset keeps, {path: share}; {} keeps all."""
        return rewrite.kept(graph, amount.reset, outgoing=self.outgoing, bias=True)

    def drawn(self, graph: UnitGraph) -> list[str]:
        """Return the paths of the kernels of which `rewrite` needs fresh draws."""
        return list(dict.fromkeys(i.param for layer in graph.layers for i in layer.incoming))


Method = TypeVar("Method", bound=type[ResetMethod])


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def reset_method(cls: Method) -> Method:
    """Make a subclass of `ResetMethod` a frozen dataclass and a pytree.

    Fields declared with `choice`, and those with a bool or text as default, are static; all others
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
        # This avoids __init__ and its checks, since tree operations put bools, None and other
        # placeholders in the place of numbers.
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
    """Return the method with its numbers as strongly typed arrays, floats in `dtype`."""

    def as_array(x: Any) -> jax.Array:
        x = jnp.asarray(x)
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            return x
        return x.astype(dtype if jnp.issubdtype(x.dtype, jnp.floating) else jnp.int32)

    return jax.tree.map(as_array, dataclasses.replace(method, key=0))


def periodic(t: jax.Array, every: Number) -> jax.Array:
    """Return whether `t` is a positive multiple of `every`."""
    return (t > 0) & (t % every == 0)


def check_range(method: ResetMethod, **bounds: tuple[float, float]) -> None:
    """Raise a ValueError if a number of the method is out of bounds; tracers are not checked."""
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
