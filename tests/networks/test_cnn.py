import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from continual_learning.networks import CNN
from continual_learning.networks.conv import Conv, convolution
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


@pytest.mark.parametrize("size", [1, 3, 5])
def test_a_convolution_is_that_of_jax_side_by_side(size):
    """Alone and under a vmap over networks: values, and gradients of images, kernels, biases."""
    keys = jax.random.split(jax.random.key(0), 4)
    x = jax.random.normal(keys[0], (2, *IMAGE))
    kernels = jax.random.normal(keys[1], (3, size, size, IMAGE[-1], 4))
    biases = jax.random.normal(keys[3], (3, 4))
    weights = jax.random.normal(keys[2], (2, *IMAGE[:2], 4))

    def theirs(x, kernel, bias):
        numbers = ("NHWC", "HWIO", "NHWC")
        out = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=numbers)
        return out + jnp.broadcast_to(bias, out.shape)

    def all_of(conv):
        def weighed(x, *params):
            return jnp.sum(weights * conv(x, *params))

        def one(*params):
            return conv(x, *params), jax.grad(weighed, (0, 1, 2))(x, *params)

        both = jax.vmap(weighed, (None, 0, 0))
        outside = jax.grad(lambda x: both(x, kernels, biases).sum())(x)
        return one(kernels[0], biases[0]), jax.vmap(one)(kernels, biases), outside

    close = lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4)  # noqa: E731
    jax.tree.map(close, all_of(convolution), all_of(theirs))


def test_side_by_side_nothing_is_a_grouped_convolution(params):
    both = jax.tree.map(lambda x: jnp.stack([x, x]), params)

    def loss(params, x):
        return jnp.sum(jnp.asarray(NET.apply(params, x)) ** 2)

    program = jax.jit(jax.vmap(jax.value_and_grad(loss), (0, None)))
    assert "convolution" not in program.lower(both, jnp.zeros((2, 60))).as_text()


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
    # The dense layer reads columns, channels, rows: channel 1 of 2, and nothing else.
    reads = units.outgoing({units.names[1]: np.array([False, True])})["params"]
    assert np.asarray(reads["hidden_0"]["kernel"]).reshape(5, 2, 4, 7)[:, 1].all()
    assert sum(np.sum(mask) for mask in jax.tree.leaves(reads)) == 20 * 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 2}, "size must be odd, got 2"),
        ({"activation": "step"}, "Unknown activation 'step'"),
        ({"kernel_init": "ones"}, "Unknown initializer 'ones'"),
    ],
)
def test_what_cannot_be(options, message):
    with pytest.raises(ValueError, match=message):
        CNN(IMAGE, (6,), (7,), 2, **options)
