"""Constraint forces of Brax's generalized pipeline, by the same method in fewer operations.

Brax solves for them with a few steps of accelerated projected gradient (FISTA, from JAXopt). Every
step searches its size by halving, up to 15 times one after the other, and this loop takes most of
the time of its physics. Here all step sizes are tried at once, and the first valid one is taken.
The results are the same up to rounding.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from brax.base import System

TOLERANCE = 1e-3  # JAXopt's
SMALLEST_STEP = 1e-6


def force(sys: System, state: Any) -> jax.Array:
    """Return the forces that keep joints within limits and feet above the ground, [qd_size].

    Args:
      sys: the robot.
      state: Brax's state of the generalized pipeline, with its constraints' Jacobian.
    """
    jacobian, inverse = state.con_jac, state.mass_mx_inv
    if jacobian.shape[0] == 0:
        return jnp.zeros(sys.qd_size())
    a = jacobian @ inverse @ jacobian.T + jnp.diag(state.con_diag)
    b = jacobian @ inverse @ state.qf_smooth - state.con_aref
    found = non_negative_least_squares(
        a, b, iterations=sys.solver_iterations, halvings=sys.solver_maxls
    )
    return jacobian.T @ found


def non_negative_least_squares(
    a: jax.Array, b: jax.Array, *, iterations: int, halvings: int
) -> jax.Array:
    """Return an x ≥ 0 [n] after steps from 0 towards the minimum of ½‖ax + b‖².

    Args:
      a: float32 [n, n].
      b: float32 [n].
      iterations: how many steps of accelerated projected gradient to make; fewer where x no longer
        moves.
      halvings: the most halvings of the step size in an iteration.
    """
    shrink = 0.5 ** jnp.arange(halvings + 1, dtype=b.dtype)
    epsilon = jnp.finfo(b.dtype).eps

    def iterate(carry: Any, _: None) -> tuple[Any, None]:
        x, y, t, size, moving = carry
        residual = a @ y + b
        gradient = a.T @ residual
        sizes = size * shrink
        tries = jnp.maximum(y[None] - sizes[:, None] * gradient[None], 0.0)  # [halvings + 1, n]
        moves = tries - y[None]
        values = 0.5 * jnp.sum(jnp.square(tries @ a.T + b[None]), axis=1)
        gain = sizes * (values - 0.5 * jnp.sum(jnp.square(residual)))
        bound = sizes * (moves @ gradient) + 0.5 * jnp.sum(jnp.square(moves), axis=1)
        good = (gain <= bound + epsilon).at[-1].set(True)  # else the smallest
        chosen = jnp.argmax(good)
        new_x, new_size = tries[chosen], sizes[chosen]
        new_size = jnp.where(new_size <= SMALLEST_STEP, 1.0, 2.0 * new_size)
        new_t = 0.5 * (1.0 + jnp.sqrt(1.0 + 4.0 * t**2))
        step = new_x - x
        new_y = new_x + (t - 1.0) / new_t * step
        error = jnp.sqrt(jnp.sum(jnp.square(step))) / new_size
        new = new_x, new_y, new_t, new_size, error > TOLERANCE
        return jax.tree.map(lambda n, o: jnp.where(moving, n, o), new, carry), None

    zero, one = jnp.zeros_like(b), jnp.ones((), b.dtype)
    start = zero, zero, one, one, jnp.asarray(True)
    return jax.lax.scan(iterate, start, None, iterations)[0][0]
