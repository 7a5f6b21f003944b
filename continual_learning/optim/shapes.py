"""The shapes φ of CPR's resets by utility u: all are 1 up to the center and fall above it."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

Number = float | int | jax.Array
_LN2 = 0.6931471805599453

# Functions of z = κ(u − center) with φ(0) = 1, the cap for units below the center. Their order is
# fixed, since a shape may be given as its number here.
SHAPES: dict[str, Callable[[jax.Array], jax.Array]] = {
    "sigmoid": lambda z: jnp.minimum(2 * jax.nn.sigmoid(-z), 1),
    "exp": lambda z: jnp.minimum(jnp.exp(-z), 1),
    "softplus": lambda z: jnp.minimum(jax.nn.softplus(-z) / _LN2, 1),
    "linear": lambda z: jnp.clip(1 - z, 0, 1),
}


def phi(shape: str | Number, utility: jax.Array, sharpness: Number, center: Number) -> jax.Array:
    """Return φ(u) in [0, 1], elementwise; an infinite sharpness gives the step 1[u ≤ center].

    Args:
      shape: a name of `SHAPES`, or its number there, which may be traced, so that one program
        serves all shapes.
      utility: u, of any shape.
      sharpness: κ, at least 0.
      center: the utility up to which φ is 1.
    """
    distance = utility - center
    z = jnp.where(distance == 0, 0, sharpness * distance)
    if isinstance(shape, str):
        return SHAPES[shape](z)
    return jax.lax.switch(shape, list(SHAPES.values()), z)
