"""Checks of the arguments of `attach_reset_method` and `update`, as early as possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from continual_learning.optim import trees
from continual_learning.optim.method import ResetMethod
from continual_learning.optim.sequential import recognize_units
from continual_learning.optim.units import UnitGraph

Graph = UnitGraph | Callable[[Any], UnitGraph] | None
Wanted = bool | jax.Array | None  # whether a call resets; None: by the method's schedule

_NAMES = ("tx", "reset_method")
_SOURCES = {
    "features": "`graph.with_features(apply_fn)` takes them out of a model, with `graph` of "
    "`trace_units`.",
    "sample_scores": "`graph.per_sample_scores(loss_fn)` computes them beside the gradients, with "
    "`graph` of `trace_units`.",
}


class Given(NamedTuple):
    """The further arguments of `update`, as they stand in a `Step`."""

    features: dict[str, jax.Array]
    sample_scores: dict[str, jax.Array]
    task: jax.Array | np.ndarray


NOTHING = Given({}, {}, np.zeros((), np.int32))


def optimizer_and_method(
    named: tuple[tuple[str, Any], ...], tx: Any, reset_method: Any
) -> tuple[optax.GradientTransformation, ResetMethod]:
    """Return the optimizer and the method, given as ("name", value) pairs or keywords.

    Args:
      named: pairs of a name and a value.
      tx: the inner optimizer, or None.
      reset_method: the method, or None.

    Raises:
      ValueError: if a pair is malformed, or a part is missing or given twice.
      TypeError: if a part is of another type.
    """
    given = {"tx": tx, "reset_method": reset_method}
    for pair in named:
        if not (isinstance(pair, tuple) and len(pair) == 2 and pair[0] in _NAMES):
            raise ValueError(
                "attach_reset_method takes the pairs ('tx', optimizer) and "
                f"('reset_method', method), or these as keywords; got {pair!r}."
            )
        if given[pair[0]] is not None:
            raise ValueError(f"attach_reset_method: {pair[0]!r} is given twice.")
        given[pair[0]] = pair[1]
    for name, value in given.items():
        if value is None:
            raise ValueError(f"attach_reset_method: {name!r} is missing.")
    tx, method = given["tx"], given["reset_method"]
    if not isinstance(tx, optax.GradientTransformation):
        raise TypeError(f"attach_reset_method: 'tx' must be an Optax optimizer, got {tx!r}.")
    if not isinstance(method, ResetMethod):
        hint = ", not the class itself" if isinstance(method, type) else ""
        raise TypeError(
            f"attach_reset_method: 'reset_method' must be an instance of a ResetMethod such as "
            f"CPR(){hint}; got {method!r}."
        )
    return tx, method


def graph_maker(units: Graph, method: ResetMethod) -> Callable[[Any], UnitGraph]:
    """Return a function that gives the checked graph of a parameter tree, without masked parts."""
    if not (units is None or isinstance(units, UnitGraph) or callable(units)):
        raise TypeError(
            "attach_reset_method: units must be a UnitGraph or a callable that makes one from the "
            f"parameters, got {type(units).__name__}."
        )
    if isinstance(units, UnitGraph):
        _check_not_empty(units, method)
    made: dict[Any, UnitGraph] = {}

    def make(params: Any) -> UnitGraph:
        present = trees.arrays(params)
        if not present:  # an empty tree, or a placeholder of some tree operation
            return UnitGraph((), (), {}, jax.tree.structure(params))
        graph = units
        if not isinstance(graph, UnitGraph):
            graph = (graph or recognize_units)(params)
            if not isinstance(graph, UnitGraph):
                raise TypeError(f"units(params) must return a UnitGraph, got {graph!r}.")
            if units is not None:  # without units there is at most one kernel, and no hidden unit
                _check_not_empty(graph, method)
        graph.check(params)
        return graph.restrict(present)

    def graph_of(params: Any) -> UnitGraph:
        structure = trees.structure(params)
        if structure not in made:
            made[structure] = make(params)
        return made[structure]

    return graph_of


def _check_not_empty(graph: UnitGraph, method: ResetMethod) -> None:
    """Raise a ValueError if the method could never change a parameter."""
    if graph.layers or method.drawn(graph) or not method.resets:
        return
    why = "; ".join(f"{path} {reason}" for path, reason in graph.untraced)
    raise ValueError(
        f"attach_reset_method: the network has no hidden units that {type(method).__name__} could "
        f"reset{f': {why}' if why else ''}. Give it a graph with hidden units, or use NoReset()."
    )


def check_gradients(graph: UnitGraph, grads: Mapping[str, Any]) -> None:
    """Raise a ValueError if a kernel of the graph has no gradient."""
    missing = [k.param for k in graph.kernels if k.param not in grads]
    if missing:
        raise ValueError(
            f"There is no gradient for {', '.join(missing)}. Gradients must be shaped like the "
            "parameters; freeze parameters with `optax.masked` around the whole optimizer."
        )


def wanted(given: Mapping[str, Any]) -> Wanted:
    """Return the argument `reset` of `update`; raise a ValueError if it is not valid."""
    value = given.get("reset")
    if value is None or isinstance(value, bool):
        return value
    if getattr(value, "dtype", None) != jnp.bool_ or jnp.shape(value) != ():
        raise ValueError(
            "update: `reset` must be True, False, a bool array of shape [], or None for the "
            f"method's own schedule; got {value!r}."
        )
    return jnp.asarray(value)


def extras(method: ResetMethod, graph: UnitGraph, params: Any, given: Mapping[str, Any]) -> Given:
    """Return the further arguments of `update`; {} and 0 for those that the method does not need.

    Args:
      method: the reset method.
      graph: the units.
      params: the parameter tree.
      given: the further arguments of `update`.

    Returns:
      {layer: [batch, *positions, units]}, {layer: [units]} and int32 [].
    """
    features, sample_scores = {}, {}
    if "features" in method.requires:
        features = _features(graph, _per_layer(method, graph, params, given, "features"))
    if "sample_scores" in method.requires:
        sample_scores = _sample_scores(
            graph, _per_layer(method, graph, params, given, "sample_scores")
        )
    task = _task(method, given) if "task" in method.requires else jnp.zeros((), jnp.int32)
    return Given(features, sample_scores, task)


def _task(method: ResetMethod, given: Mapping[str, Any]) -> jax.Array:
    name, task = type(method).__name__, given.get("task")
    if task is None:
        raise ValueError(
            f"{name} acts when the task changes and needs its number: call `tx.update(grads, "
            "state, params, task=n)` with n = 0 in the first task, or let it act every n steps: "
            f"`{name}(every=n)`."
        )
    if (
        isinstance(task, bool)
        or jnp.shape(task)
        or not jnp.issubdtype(jnp.result_type(task), jnp.integer)
    ):
        raise ValueError(f"{name}: `task` must be an integer, got {task!r}.")
    return jnp.asarray(task, jnp.int32)


def _per_layer(
    method: ResetMethod, graph: UnitGraph, params: Any, given: Mapping[str, Any], what: str
) -> dict[str, jax.Array]:
    """Return {layer: array} for the layers of the graph; layers that are masked are ignored."""
    name = type(method).__name__
    value = given.get(what)
    if value is None:
        raise ValueError(
            f"{name} needs `{what}`: call `tx.update(grads, state, params, {what}={{layer: "
            f"array}})` with an array for each of the layers {list(graph.names)}. {_SOURCES[what]} "
            "A Flax TrainState passes them on in a subclass: docs/add_cpr.md, CBP and ReDo."
        )
    if not isinstance(value, Mapping):
        raise TypeError(
            f"{name}: `{what}` must be a mapping {{layer: array}}, got {type(value).__name__}."
        )
    leaves = trees.named_leaves(params)
    ours = {k: v for k, v in value.items() if not trees.is_masked_away(k, leaves)}
    graph.check_names(ours, f"`{what}` of {name}")
    missing = [layer for layer in graph.names if layer not in value]
    if missing:
        raise ValueError(f"{name}: `{what}` lacks the layers {missing}.")
    return {layer: jnp.asarray(value[layer]) for layer in graph.names}


def _features(graph: UnitGraph, features: dict[str, jax.Array]) -> dict[str, jax.Array]:
    for layer in graph.layers:
        shape = features[layer.name].shape
        if len(shape) < 2 or shape[-1] != layer.size:
            raise ValueError(
                f"features[{layer.name!r}] must be [batch, …, {layer.size}] (units last), got "
                f"{list(shape)}."
            )
    return features


def _sample_scores(graph: UnitGraph, scores: dict[str, jax.Array]) -> dict[str, jax.Array]:
    for layer in graph.layers:
        shape = scores[layer.name].shape
        if len(shape) not in (1, 2) or shape[-1] != layer.size:
            raise ValueError(
                f"sample_scores[{layer.name!r}] must be [{layer.size}] or [batch, {layer.size}], "
                f"got {list(shape)}."
            )
    return {n: s if s.ndim == 1 else jnp.mean(s, axis=0) for n, s in scores.items()}
