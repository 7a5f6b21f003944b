import jax.numpy as jnp
import numpy as np
import pytest

from continual_learning.diagnostics import (
    dormant_score,
    plasticity_metrics,
    rank_metrics,
    singular_values,
)

H = np.ones((2, 3), np.float32)


@pytest.mark.parametrize("function", [plasticity_metrics, rank_metrics])
@pytest.mark.parametrize(
    ("features", "error", "message"),
    [
        (H, TypeError, "features is a ndarray, but must be a mapping of layer names"),
        ([H], TypeError, "features is a list"),
        ({}, ValueError, "features is empty"),
        ({0: H}, ValueError, "a layer named 0, but layer names must be strings"),
        ({"total": H}, ValueError, "a layer named 'total'"),
        ({"a": H, "b": {"c": H}}, TypeError, r"features\['b'\] is a dict.*must be flattened"),
        ({"a": 1.0}, TypeError, r"features\['a'\] is a float"),
        ({"a": H, "b": H[0]}, ValueError, r"features\['b'\] has shape \(3,\).*batch axis"),
        ({"a": jnp.zeros((0, 3))}, ValueError, r"features\['a'\] has shape \(0, 3\)"),
        ({"a": jnp.zeros((3, 0))}, ValueError, r"features\['a'\] has shape \(3, 0\)"),
    ],
)
def test_bad_features(function, features, error, message):
    with pytest.raises(error, match=message):
        function(features)


@pytest.mark.parametrize("function", [dormant_score, singular_values])
def test_bad_layer(function):
    with pytest.raises(ValueError, match=r"The layer has shape \(3,\)"):
        function(H[0])
