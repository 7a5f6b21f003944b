import jax.numpy as jnp
import pytest


def test_broadcasting_over_ranks_is_an_error():
    with pytest.raises(ValueError, match="rank_promotion"):
        jnp.ones((2, 3)) + jnp.ones(3)


def test_float64_is_for_those_who_ask(x64):
    assert jnp.ones(1).dtype == jnp.float64


def test_float32_is_the_default():
    assert jnp.ones(1).dtype == jnp.float32
