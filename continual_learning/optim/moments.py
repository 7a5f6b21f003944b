"""Optimizer moments of given parameters, in any nesting of optimizers.

Only states that are listed here or registered are changed. All others are left alone: copies of
parameters (schedule-free, lookahead, mechanic), gradient accumulators (`MultiSteps`,
`apply_every`), statistics that are not per entry, and optimizers that are not in the list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax
from optax import contrib

from continual_learning.optim import trees


def _type_of(tx: optax.GradientTransformation) -> type:
    # The evaluation is abstract, since an import must not start a backend.
    return type(jax.eval_shape(tx.init, {}))


# State type -> fields shaped like the parameters that start at zero.
_FIELDS: dict[type, tuple[str, ...]] = {
    optax.ScaleByAdamState: ("mu", "nu"),  # adam, adamw, nadam, lamb, yogi, radam …
    optax.ScaleByAmsgradState: ("mu", "nu", "nu_max"),
    optax.ScaleByBeliefState: ("mu", "nu"),
    optax.ScaleByLionState: ("mu",),
    optax.ScaleByRmsState: ("nu",),
    _type_of(optax.scale_by_rms(bias_correction=True)): ("nu",),
    optax.ScaleByRStdDevState: ("mu", "nu"),
    _type_of(optax.scale_by_stddev(bias_correction=True)): ("mu", "nu"),
    optax.ScaleByAdaDeltaState: ("e_g", "e_x"),
    optax.TraceState: ("trace",),  # momentum
    optax.EmaState: ("ema",),
    contrib.MuonState: ("mu",),
}


def register_moments(state_type: type, *fields: str) -> None:
    """Make resets zero `fields` of an optimizer state of your own.

    Args:
      state_type: a NamedTuple class with these fields.
      *fields: names of fields that hold a tree like the parameters (moments, per-entry step
        counts) whose fresh value is zero.
    """
    known = getattr(state_type, "_fields", None)
    if known is None:
        raise TypeError(f"{state_type!r} is not a NamedTuple class.")
    missing = sorted(set(fields) - set(known))
    if missing or not fields:
        raise ValueError(f"fields must be some of {list(known)}, got {list(fields)}.")
    _FIELDS[state_type] = fields


def _is_known(node: Any) -> bool:
    return type(node) in _FIELDS


def find_moments(state: Any, params: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    """Return the moments of the given parameters in an optimizer state.

    Args:
      state: any nesting of Optax states.
      params: {path: array}, the given parameters.

    Returns:
      {"<number of the state>:<field>:<path>": array}, without moments that are masked.
    """
    found = {}
    for name, tree in _moment_trees(state):
        for path, leaf in trees.arrays(tree).items():
            if path in params and jnp.shape(leaf) == jnp.shape(params[path]):
                found[f"{name}:{path}"] = leaf
    return found


def _moment_trees(state: Any) -> Iterable[tuple[str, Any]]:
    nodes = [node for node in jax.tree.leaves(state, is_leaf=_is_known) if _is_known(node)]
    for i, node in enumerate(nodes):
        for field in _FIELDS[type(node)]:
            yield f"{i}:{field}", getattr(node, field)


def scale_moments(
    moments: Mapping[str, jax.Array], keep: Mapping[str, jax.Array]
) -> dict[str, jax.Array]:
    """Multiply moments by the shares to keep; a share of 0 clears even what is not finite."""

    def scaled(name: str, moment: jax.Array) -> jax.Array:
        share = keep[name.split(":", 2)[2]]
        return jnp.where(share > 0, moment * share, 0).astype(moment.dtype)

    return {name: scaled(name, moment) for name, moment in moments.items()}


def replace_moments(state: Any, new: Mapping[str, jax.Array]) -> Any:
    """Return `state` with the moments of `find_moments` replaced."""
    number = -1

    def at(node: Any) -> Any:
        nonlocal number
        if not _is_known(node):
            return node
        number += 1
        changed = {}
        for field in _FIELDS[type(node)]:
            prefix = f"{number}:{field}:"
            leaves = {k.removeprefix(prefix): v for k, v in new.items() if k.startswith(prefix)}
            changed[field] = trees.replace(getattr(node, field), leaves)
        return node._replace(**changed)

    return jax.tree.map(at, state, is_leaf=_is_known)
