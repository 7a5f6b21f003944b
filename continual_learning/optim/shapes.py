"""φ: how strongly CPR resets a unit of utility u. Each is 1 up to the centre and falls above it."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

Number = float | int | jax.Array
_LN2 = 0.6931471805599453

# Of z = κ(u − centre); all have φ(0) = 1, the cap for units below the centre.
SHAPES: dict[str, Callable[[jax.Array], jax.Array]] = {
    "sigmoid": lambda z: jnp.minimum(2 * jax.nn.sigmoid(-z), 1),
    "exp": lambda z: jnp.minimum(jnp.exp(-z), 1),
    "softplus": lambda z: jnp.minimum(jax.nn.softplus(-z) / _LN2, 1),
    "linear": lambda z: jnp.clip(1 - z, 0, 1),
}


def phi(shape: str, utility: jax.Array, sharpness: Number, center: Number) -> jax.Array:
    """φ(u) in [0, 1], elementwise; an infinite sharpness gives the step 1[u ≤ centre]."""
    distance = utility - center
    return SHAPES[shape](jnp.where(distance == 0, 0, sharpness * distance))
