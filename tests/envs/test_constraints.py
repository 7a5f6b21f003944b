"""Constraint forces: JAXopt's projected gradient, with the line search done at once."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from continual_learning.envs.robots.constraints import non_negative_least_squares

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import jaxopt

ITERATIONS, HALVINGS = 4, 15


def problems(scale):
    """Like contacts: a = JJᵀ + diagonal, with some constraints that are not active (zeros)."""
    rng = np.random.default_rng(0)
    jacobian = rng.normal(size=(64, 24, 14)) * scale
    jacobian[:, 10:] *= rng.random(size=(64, 14, 1)) < 0.5
    a = jacobian @ jacobian.swapaxes(1, 2) + 0.01 * np.eye(24)
    return jnp.asarray(a, jnp.float32), jnp.asarray(rng.normal(size=(64, 24)), jnp.float32)


def by_jaxopt(a, b):
    def objective(x):
        return jnp.sum(0.5 * (a @ x + b) ** 2)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solver = jaxopt.ProjectedGradient(
            objective,
            jaxopt.projection.projection_non_negative,
            maxiter=ITERATIONS,
            implicit_diff=False,
            maxls=HALVINGS,
        )
        return solver.run(jnp.zeros_like(b)).params


@pytest.mark.parametrize("scale", [0.03, 0.3, 3.0])
def test_equal_to_jaxopts(scale):
    a, b = problems(scale)

    def ours(a, b):
        return non_negative_least_squares(a, b, iterations=ITERATIONS, halvings=HALVINGS)

    with jax.numpy_rank_promotion("allow"):
        theirs = jax.jit(jax.vmap(by_jaxopt))(a, b)
    found = jax.jit(jax.vmap(ours))(a, b)
    assert (found >= 0).all() and (found > 0).any()
    close = np.isclose(found, theirs, rtol=1e-3, atol=1e-4).all(axis=1)
    assert close.mean() > 0.95  # where two step sizes are as good, rounding decides


def test_many_iterations_find_the_minimum():
    a = jnp.asarray([[2.0, 0.5], [0.5, 1.0]])
    b = jnp.asarray([-2.0, 3.0])  # without the bound the second would be negative
    x = non_negative_least_squares(a, b, iterations=200, halvings=15)
    best = np.array([(a.T @ -b)[0] / (a.T @ a)[0, 0], 0.0])
    np.testing.assert_allclose(x, np.maximum(best, 0), atol=1e-3)
