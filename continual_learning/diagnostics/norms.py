"""L2 norms of gradients and parameters."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from continual_learning.diagnostics.layers import TOTAL


def norm_metrics(tree: object) -> dict[str, Array]:
    """Return the L2 norms of a tree of gradients or parameters, leaf by leaf and in total.

    Args:
        tree: Any pytree of arrays. `None` and `optax.MaskedNode` hold no leaves and do not count.

    Returns:
        One scalar per leaf under its path, such as "params/dense_0/kernel", and the norm of all
        leaves together under "total": 0 for an empty tree, NaN if a leaf holds a NaN. Half
        precision is summed in float32.
    """
    squares: dict[str, Array] = {}
    for path, leaf in jax.tree.leaves_with_path(tree):
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        if not isinstance(leaf, jax.Array | np.ndarray | np.number | int | float):
            raise TypeError(
                f"The leaf {name!r} is a {type(leaf).__name__}, but must be an array. Take it out "
                "of the tree, or replace it by None."
            )
        if name in squares or name == TOTAL:
            raise ValueError(
                f"Two norms would be named {name!r}, but the names of leaves must differ from each "
                f"other and from {TOTAL!r}. Rename the leaf, or nest the tree: "
                "norm_metrics({'params': tree})."
            )
        squares[name] = _sum_of_squares(leaf)
    total = jnp.sqrt(sum(squares.values()))
    return {TOTAL: total} | {name: jnp.sqrt(square) for name, square in squares.items()}


def _sum_of_squares(leaf: ArrayLike) -> Array:
    leaf = jnp.asarray(leaf)
    return jnp.square(jnp.abs(leaf.astype(jnp.promote_types(leaf.dtype, jnp.float32)))).sum()
