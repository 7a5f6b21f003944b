import jax
import jax.numpy as jnp
import numpy as np
import pytest

from continual_learning.networks.selecting import clipped, lesser

X = jnp.array([-3.0, -1.0, 0.5, 2.0, 7.0, jnp.nan])
Y = jnp.array([1.0, -4.0, 0.5, 3.0, 7.0, 0.0])


def clip(x):
    return clipped(x, -1.0, 2.0)


def test_values():
    np.testing.assert_array_equal(clip(X), jnp.clip(X, -1, 2))
    np.testing.assert_array_equal(lesser(X[:-1], Y[:-1]), jnp.minimum(X, Y)[:-1])


def test_gradients():
    np.testing.assert_array_equal(jax.vmap(jax.grad(clip))(X[:-1]), [0, 1, 1, 1, 0])
    of_both = jax.vmap(jax.grad(lesser, argnums=(0, 1)))(X[:-1], Y[:-1])
    np.testing.assert_array_equal(of_both[0], [1, 0, 1, 1, 1])
    np.testing.assert_array_equal(of_both[1], [0, 1, 0, 0, 0])


@pytest.mark.parametrize("function", [clip, lambda x: lesser(x, 2 * x)])
def test_gradients_do_not_ask_which_values_are_equal(function):
    """Computed again by a compiler, a value may be rounded otherwise."""
    assert " eq " not in str(jax.make_jaxpr(jax.grad(function))(0.5))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_types_stay(dtype):
    x = X.astype(dtype)
    assert clip(x).dtype == lesser(x, x).dtype == dtype
