"""Features and pre-activations of a model, which are taken out of its program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.optim.tracing.evaluate import Slot, Taken
from continual_learning.optim.tracing.history import History
from continual_learning.optim.tracing.labels import NONE, Activation, constant_along, first_along
from continual_learning.optim.tracing.program import Program
from continual_learning.optim.units import UnitGraph

Arrays = dict[str, jax.Array]


def with_features(graph: UnitGraph, apply_fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function as `UnitGraph.with_features` explains."""
    plans: dict[Any, _Plan] = {}

    def apply_with_features(params: Any, *inputs: Any) -> tuple[Any, Arrays, Arrays]:
        program = Program(apply_fn, params, inputs, graph.pairs)
        if program.key not in plans:
            plans[program.key] = _plan(graph, program)
        plan = plans[program.key]
        wanted = {part.slot for parts in (*plan.before, *plan.after) for part in parts}
        out, taken = program.run(params, inputs, wanted)

        def arrays(layers: list[list[_Part]]) -> Arrays:
            return dict(zip(graph.names, (_joined(parts, taken) for parts in layers), strict=True))

        after, before = arrays(plan.after), arrays(plan.before)
        return out, after, {name: _at_places_of(after[name], z) for name, z in before.items()}

    return apply_with_features


class _Part(NamedTuple):
    """The place of some units of a layer in the program.

    Attributes:
      slot: the array.
      batch: its batch axis, None if it has none.
      axis: the axis along which all units of the layer lie in order, None if there is none.
      places: [positions, units], their indices in the other axes, flattened, if `axis` is None.
      units: the numbers of the units.
    """

    slot: Slot
    batch: int | None
    axis: int | None
    places: np.ndarray
    units: np.ndarray

    def of(self, x: jax.Array) -> jax.Array:
        """Return [batch, *iterations, *positions, units]; a loop around the array adds iterations.

        `x` is the array in the slot.
        """
        batch, axis, loops = self.batch, self.axis, self.slot.loops
        if batch is None:
            x, batch, axis = jnp.expand_dims(x, loops), 0, None if axis is None else axis + 1
        x = jnp.moveaxis(x, loops + batch, 0)
        if axis is not None:
            return jnp.moveaxis(x, 1 + loops + axis - (axis > batch), -1)
        lead = x.shape[: 1 + loops]
        x = x.reshape(*lead, -1)[..., self.places.reshape(-1)].reshape(*lead, *self.places.shape)
        return x[..., 0, :] if self.places.shape[0] == 1 else x


class _Plan(NamedTuple):
    """The places of every layer's features (`after`) and pre-activations (`before`)."""

    after: list[list[_Part]]
    before: list[list[_Part]]


def _plan(graph: UnitGraph, program: Program) -> _Plan:
    small = program.small
    history = History(small.interpreted[0].journal)
    labels = small.labels_of(graph)
    after, before = [], []
    for layer in graph.layers:
        chosen = _chosen(history, layer.size, labels[layer.name])
        unread = sorted(set(range(layer.size)).difference(*chosen.values()))
        if unread:
            raise ValueError(
                f"with_features: no weight reads units {unread} of layer {layer.name!r}, so they "
                "have no features. Remove them from the model, or use a method without features: "
                "CPR, ReGraMa or ShrinkAndPerturb."
            )
        after.append(
            [_part(program, history, n, labels[layer.name], units) for n, units in chosen.items()]
        )
        roots: dict[int, list[int]] = {}
        for n, units in chosen.items():
            roots.setdefault(history.pasts[n].root, []).extend(units)
        before.append(
            [_part(program, history, n, labels[layer.name], sorted(u)) for n, u in roots.items()]
        )
    return _Plan(after, before)


def _chosen(history: History, size: int, index: np.ndarray) -> dict[int, list[int]]:
    """Return the last activation of each unit that a weight reads: {number: units}."""
    missing, chosen = set(range(size)), {}
    for number in sorted(history.read, reverse=True):
        labels = history.values[number].labels
        units = index[np.unique(labels[labels >= 0])]
        here = missing & set(units[units >= 0].tolist())
        if here:
            chosen[number] = sorted(here)
            missing -= here
        if not missing:
            break
    return chosen


def _part(
    program: Program, history: History, number: int, index: np.ndarray, units: list[int]
) -> _Part:
    value, slot = history.values[number], history.slot(number)
    batch = _batch_axis(program, value, slot)
    labels, position = value.labels, value.position
    owner = np.where(labels >= 0, index[labels], NONE)
    others = [a for a in range(owner.ndim) if a != batch]
    for axis in others:
        rest = [a for a in range(owner.ndim) if a != axis]
        row = first_along(owner, rest).reshape(-1)
        if constant_along(owner, rest) and np.array_equal(row, np.arange(len(units))):
            return _Part(slot, batch, axis, np.zeros((0, 0), int), np.array(units))
    if batch is not None:
        owner, position = (np.moveaxis(a, batch, 0)[0] for a in (owner, position))
    owner, position = owner.reshape(-1), position.reshape(-1)
    places = [np.flatnonzero(owner == unit) for unit in units]
    places = [at[np.argsort(position[at], kind="stable")] for at in places]
    if len({len(at) for at in places}) > 1:
        name = program.equation(slot).primitive.name
        raise ValueError(
            f"with_features: units {units} come out of {name!r} at different numbers of places."
        )
    return _Part(slot, batch, None, np.stack(places, axis=-1), np.array(units))


def _batch_axis(program: Program, value: Activation, slot: Slot) -> int | None:
    """Return the axis that is longer than in the small program.

    If all are as long, return the first along which neither units nor places differ, or None.
    """
    shape = program.shape(slot)
    longer = [a for a, (n, m) in enumerate(zip(shape, value.shape, strict=True)) if n != m]
    if longer:
        return longer[0]
    for axis in range(len(shape)):
        if constant_along(value.labels, [axis]) and constant_along(value.position, [axis]):
            return axis
    return None


def _at_places_of(feature: jax.Array, preactivation: jax.Array) -> jax.Array:
    """Return the pre-activations, repeated where units have several features of each.

    A concatenated rectifier, for instance, has two halves.
    """
    wanted, given = (int(np.prod(x.shape[1:-1])) for x in (feature, preactivation))
    if wanted <= given or wanted % given:
        return preactivation
    z = preactivation.reshape(len(preactivation), given, -1)
    return jnp.repeat(z, wanted // given, axis=1).reshape(feature.shape)


def _joined(parts: list[_Part], taken: Taken) -> jax.Array:
    arrays = [part.of(taken[part.slot]) for part in parts]
    if len(arrays) == 1:
        return arrays[0]
    order = np.argsort(np.concatenate([part.units for part in parts]))
    return jnp.concatenate(arrays, axis=-1)[..., order]
