import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.diagnostics import norm_metrics


def test_leaves_and_total():
    tree = {"params": {"dense": {"kernel": jnp.array([[3.0, 4.0]]), "bias": jnp.array([-12.0])}}}
    assert norm_metrics(tree) == {"total": 13, "params/dense/kernel": 5, "params/dense/bias": 12}


def test_total_is_the_global_norm_of_optax():
    tree = [np.arange(6.0), np.ones((2, 3)), np.full(6, -2.0)]
    metrics = norm_metrics(tree)
    assert list(metrics) == ["total", "0", "1", "2"]
    np.testing.assert_allclose(metrics["total"], optax.tree.norm(tree), rtol=1e-6)


@pytest.mark.parametrize("tree", [None, {}, (), optax.MaskedNode(), {"a": None, "b": []}])
def test_nothing_has_norm_zero(tree):
    assert norm_metrics(tree) == {"total": 0}


def test_masked_parameters_count_for_nothing():
    tree = {"a": jnp.array([3.0]), "b": optax.MaskedNode(), "c": None}
    assert norm_metrics(tree) == {"total": 3, "a": 3}


def test_half_precision_is_summed_in_float32():
    metrics = norm_metrics({"w": jnp.full((4,), 300.0, jnp.float16)})
    assert metrics["w"].dtype == metrics["total"].dtype == jnp.float32
    assert metrics["total"] == 600


def test_float64_stays_float64():
    with jax.enable_x64(True):
        metrics = norm_metrics({"w": jnp.array([1e200])})
        assert metrics["w"].dtype == metrics["total"].dtype == jnp.float64
        metrics = norm_metrics({"w": jnp.array([1.0], jnp.float32)})
        assert metrics["w"].dtype == metrics["total"].dtype == jnp.float32


def test_nan_is_not_hidden():
    metrics = norm_metrics({"bad": jnp.array([jnp.nan]), "good": jnp.array([1.0])})
    assert np.isnan(metrics["bad"])
    assert np.isnan(metrics["total"])
    assert metrics["good"] == 1


def test_jit_and_vmap_change_nothing():
    tree = {"a": jnp.arange(6.0).reshape(2, 3), "b": jnp.ones((2, 1, 2))}
    metrics = jax.jit(jax.vmap(norm_metrics))(tree)
    first = norm_metrics(jax.tree.map(lambda x: x[0], tree))
    assert metrics.keys() == first.keys()
    for name, norm in first.items():
        np.testing.assert_allclose(metrics[name][0], norm, rtol=1e-6)


def test_leaf_that_is_no_array_is_named():
    with pytest.raises(TypeError, match="leaf 'mlp/activation' is a function"):
        norm_metrics({"mlp": {"activation": lambda x: x}})


@pytest.mark.parametrize(
    ("tree", "name"), [({"total": 1.0}, "total"), ({"a": {"b": 1.0}, "a/b": 2.0}, "a/b")]
)
def test_names_that_would_collide(tree, name):
    with pytest.raises(ValueError, match=f"Two norms would be named '{name}'"):
        norm_metrics(tree)
