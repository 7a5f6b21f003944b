"""Parameter trees by path, for any container that JAX can flatten, with masked leaves."""

from __future__ import annotations

import collections
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax


def is_masked(node: Any) -> bool:
    """Return whether an outer wrapper (`optax.masked`, `optax.multi_transform`) masks this node."""
    return isinstance(node, optax.MaskedNode)


def named_leaves(tree: Any) -> dict[str, Any]:
    """Return {path: leaf} in tree order, with '/' between keys; masked nodes are leaves.

    A node whose only leaf is an attribute `value` (NNX's variables) gives its name to that leaf.
    """
    flat, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_masked)
    parents = collections.Counter(path[:-1] for path, _ in flat)

    def name(path: tuple[Any, ...]) -> str:
        if path and parents[path[:-1]] == 1 and path[-1] == jax.tree_util.GetAttrKey("value"):
            path = path[:-1]
        return jax.tree_util.keystr(path, simple=True, separator="/")

    leaves = {name(path): leaf for path, leaf in flat}
    if len(leaves) < len(flat):
        names = collections.Counter(name(path) for path, _ in flat)
        raise ValueError(f"Several parameters have the path {names.most_common(1)[0][0]!r}.")
    return leaves


def arrays(tree: Any) -> dict[str, jax.Array]:
    """Return `named_leaves` without masked nodes."""
    return {p: leaf for p, leaf in named_leaves(tree).items() if not is_masked(leaf)}


def parameters(tree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return the arrays of `tree`, and a function that puts others in their places.

    A module with leaves that no optimizer could train (functions, flags, sizes), like those of
    Equinox, is split like `eqx.partition(module, eqx.is_inexact_array)`: the result has None in
    place of these leaves.
    """
    leaves = jax.tree.leaves(tree)
    if all(_is_array(x) or isinstance(x, complex | float) for x in leaves):
        return tree, lambda arrays: arrays
    own = [_is_array(x) and jnp.issubdtype(x.dtype, jnp.inexact) for x in leaves]
    treedef = jax.tree.structure(tree)

    def combined(arrays: Any) -> Any:
        given = iter(jax.tree.leaves(arrays))
        return treedef.unflatten(
            next(given) if mine else x for x, mine in zip(leaves, own, strict=True)
        )

    return treedef.unflatten(
        x if mine else None for x, mine in zip(leaves, own, strict=True)
    ), combined


def _is_array(x: Any) -> bool:
    return hasattr(x, "shape") and hasattr(x, "dtype")


def is_masked_away(path: str, leaves: Mapping[str, Any]) -> bool:
    """Return whether `path` is masked, or lies under a node that is masked as a whole."""
    parts = path.split("/")
    return any(is_masked(leaves.get("/".join(parts[:i]))) for i in range(len(parts) + 1))


def replace(tree: Any, new: Mapping[str, Any]) -> Any:
    """Return `tree` with the leaves at the paths in `new` replaced."""
    treedef = jax.tree.structure(tree, is_leaf=is_masked)
    return treedef.unflatten(new.get(path, leaf) for path, leaf in named_leaves(tree).items())


def structure(tree: Any) -> tuple[Any, ...]:
    """Return a hashable key that is equal for trees of equal structure and shapes."""
    leaves, treedef = jax.tree.flatten(tree)
    return (treedef, *(jnp.shape(leaf) for leaf in leaves))


def natural(path: str) -> tuple[Any, ...]:
    """Return a sort key under which `layer_10` comes after `layer_2`."""
    parts = re.split(r"(\d+)", path)
    return tuple((int(p), "") if p.isdigit() else (-1, p) for p in parts if p)
