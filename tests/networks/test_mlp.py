"""The perceptron: its layers, and names that are not valid."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from continual_learning.networks import MLP, initializer
from continual_learning.optim import trace_units


def test_layers_and_their_initialization():
    network = MLP((6, 5), 3, "relu", "he_uniform")
    params = network.init(jax.random.key(0), jnp.ones((1, 4)))["params"]
    assert {name: layer["kernel"].shape for name, layer in params.items()} == {
        "hidden_0": (4, 6),
        "hidden_1": (6, 5),
        "output": (5, 3),
    }
    kernel = np.asarray(params["hidden_0"]["kernel"])
    assert np.abs(kernel).max() <= np.sqrt(6 / 4) and np.abs(kernel).max() > 1
    assert all((layer["bias"] == 0).all() for layer in params.values())
    x = jnp.ones((2, 4))
    h = jax.nn.relu(x @ params["hidden_0"]["kernel"])
    h = jax.nn.relu(h @ params["hidden_1"]["kernel"])
    expected = h @ params["output"]["kernel"]
    np.testing.assert_allclose(network.apply({"params": params}, x), expected, rtol=1e-5)


def test_a_norm_before_every_activation():
    network = MLP((6,), 2, "tanh", layer_norm=True)
    x = jax.random.normal(jax.random.key(1), (3, 4))
    params = network.init(jax.random.key(0), x)
    scale = jnp.arange(1.0, 7.0)
    params["params"]["norm_0"] = {"scale": scale, "bias": 0.5 * scale}
    h = x @ params["params"]["hidden_0"]["kernel"]
    h = (h - h.mean(-1, keepdims=True)) / jnp.sqrt(h.var(-1, keepdims=True) + 1e-6)
    expected = jnp.tanh((h + 0.5) * scale[None]) @ params["params"]["output"]["kernel"]
    np.testing.assert_allclose(network.apply(params, x), expected, rtol=1e-4, atol=1e-6)
    units = trace_units(network.apply, params, x)
    [layer] = units.layers
    assert layer.size == 6 and not units.untraced
    assert [link.param for link in layer.scale] == ["params/norm_0/scale"]


def test_names_that_are_not_valid():
    with pytest.raises(ValueError, match=r"Unknown activation 'rleu'. Valid: relu, swish"):
        MLP((4,), 2, "rleu")
    with pytest.raises(ValueError, match=r"Unknown initializer 'he'. Valid: he_uniform"):
        initializer("he")
