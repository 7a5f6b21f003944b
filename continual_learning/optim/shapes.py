"""φ: how strongly CPR resets a unit of utility u. Each is 1 up to the centre and falls above it."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

Number = float | int | jax.Array
_LN2 = 0.6931471805599453

# Of z = κ(u − centre); all have φ(0) = 1, the cap for units below the centre. Their order counts: a
# shape may be given as its number here.
SHAPES: dict[str, Callable[[jax.Array], jax.Array]] = {
    "sigmoid": lambda z: jnp.minimum(2 * jax.nn.sigmoid(-z), 1),
    "exp": lambda z: jnp.minimum(jnp.exp(-z), 1),
    "softplus": lambda z: jnp.minimum(jax.nn.softplus(-z) / _LN2, 1),
    "linear": lambda z: jnp.clip(1 - z, 0, 1),
}


def phi(shape: str | Number, utility: jax.Array, sharpness: Number, center: Number) -> jax.Array:
    """φ(u) in [0, 1], elementwise; an infinite sharpness gives the step 1[u ≤ centre].

    Args:
      shape: a name of `SHAPES`, or its number there, which may be traced: programs that differ in
        it alone are one.
      utility: u, of any shape.
      sharpness: κ, at least 0.
      center: the utility up to which φ is 1.
    """
    distance = utility - center
    z = jnp.where(distance == 0, 0, sharpness * distance)
    if isinstance(shape, str):
        return SHAPES[shape](z)
    return jax.lax.switch(shape, list(SHAPES.values()), z)
