import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from continual_learning.networks import CNN
from continual_learning.networks.cnn import Conv
from continual_learning.optim import trace_units

IMAGE = (4, 5, 3)
NET = CNN(IMAGE, (6, 2), (7,), 2, kernel_init="he_uniform")


@pytest.fixture(scope="module")
def params():
    return NET.init(jax.random.key(0), jnp.zeros((1, 60)))


@pytest.mark.parametrize("size", [1, 3, 5])
def test_a_convolution_is_that_of_flax(size):
    x = jax.random.normal(jax.random.key(1), (2, *IMAGE))
    theirs = nn.Conv(6, (size, size), kernel_init=nn.initializers.he_uniform())
    ours = Conv(6, size, nn.initializers.he_uniform())
    params = theirs.init(jax.random.key(0), x)
    jax.tree.map(np.testing.assert_array_equal, ours.init(jax.random.key(0), x), params)
    params["params"]["bias"] += jnp.arange(6.0)
    np.testing.assert_allclose(ours.apply(params, x), theirs.apply(params, x), atol=1e-5)


def test_reads_flat_observations(params):
    x = jax.random.normal(jax.random.key(1), (2, 3, 60))
    out = jnp.asarray(NET.apply(params, x))
    assert out.shape == (2, 3, 2)
    np.testing.assert_allclose(out[1, 2], NET.apply(params, x[1, 2]), rtol=1e-4)
    names = {name: layer["kernel"].shape for name, layer in params["params"].items()}
    assert names == {
        "conv_0": (3, 3, 3, 6),
        "conv_1": (3, 3, 6, 2),
        "hidden_0": (40, 7),
        "output": (7, 2),
    }


def test_units(params):
    """Channels are units, and a channel's outgoing entries are those that read it."""
    units = trace_units(NET.apply, params, jnp.zeros((1, 60)))
    assert [layer.size for layer in units.layers] == [6, 2, 7]
    x = jax.random.normal(jax.random.key(1), (8, 60))
    _, features, _ = units.with_features(NET.apply)(params, x)
    assert [f.shape for f in features.values()] == [(8, 4, 5, 6), (8, 4, 5, 2), (8, 7)]
    # NHWC: channel 1 of 2 feeds every second row of the dense layer, and nothing else.
    reads = units.outgoing({units.names[1]: np.array([False, True])})["params"]
    assert np.asarray(reads["hidden_0"]["kernel"])[1::2].all()
    assert sum(np.sum(mask) for mask in jax.tree.leaves(reads)) == 20 * 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 2}, "size must be odd, got 2"),
        ({"activation": "step"}, "Unknown activation 'step'"),
        ({"kernel_init": "ones"}, "Unknown initialiser 'ones'"),
    ],
)
def test_what_cannot_be(options, message):
    with pytest.raises(ValueError, match=message):
        CNN(IMAGE, (6,), (7,), 2, **options)
