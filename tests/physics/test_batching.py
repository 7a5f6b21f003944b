"""A function of environments-last arrays, mapped by callers who write one environment."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from continual_learning.physics import of_one

SEEDS, ENVS = 3, 5


@pytest.fixture
def counted():
    """(shapes that a function was called with, the function for one environment)."""
    shapes = []

    def function(state, factor):
        shapes.append((state["x"].shape, factor.shape))
        return {"x": state["x"] * factor[None] + state["y"][None], "first": state["x"][0]}

    return shapes, of_one(function)


def wanted(x, y, factor):
    return {"x": x * factor + y, "first": x[..., 0]}


def test_one_environment(counted):
    shapes, one = counted
    x, y = jnp.arange(4.0), jnp.float32(2)
    found = one({"x": x, "y": y}, jnp.float32(3))
    np.testing.assert_array_equal(found["x"], 3 * x + 2)
    assert found["first"].shape == () and shapes == [((4, 1), (1,))]


def test_seeds_of_environments_are_one_call(counted):
    shapes, one = counted
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(SEEDS, ENVS, 4)), rng.normal(size=(SEEDS, ENVS))
    factor = rng.normal(size=SEEDS)  # the same for all environments of a seed

    def seed(x, y, factor):
        return jax.vmap(lambda x, y: one({"x": x, "y": y}, factor))(x, y)

    found = jax.jit(jax.vmap(seed))(x, y, factor)
    expected = wanted(x, y[..., None], factor[:, None, None])
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6)
    assert shapes[-1] == ((4, SEEDS * ENVS), (SEEDS * ENVS,))


def test_in_a_scan_and_with_what_is_not_mapped(counted):
    _, one = counted
    x = jnp.arange(ENVS * 4.0).reshape(ENVS, 4)

    def lane(x):
        def step(x, _):
            return one({"x": x, "y": jnp.float32(1)}, jnp.float32(2))["x"], None

        return jax.lax.scan(step, x, None, 3)[0]

    np.testing.assert_array_equal(jax.jit(jax.vmap(lane))(x), 8 * x + 7)
