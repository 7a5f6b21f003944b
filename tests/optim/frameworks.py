"""Two networks, each written in five ways, and their parameters brought to a common form."""

import functools

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
from flax import nnx

from continual_learning.optim.trees import named_leaves

EPSILON = 1e-5  # of the norm: the frameworks' defaults differ


# Plain functions, which are also the common form that all others are brought to. ----------------


def dense(p, x):
    return x @ p["w"] + p["b"][None]


def conv(p, x):
    dims = ("NHWC", "HWIO", "NHWC")
    x = jax.lax.conv_general_dilated(x, p["w"], (1, 1), "SAME", dimension_numbers=dims)
    return x + p["b"][None, None, None]


def layer_norm(p, x):
    x = x - x.mean(-1, keepdims=True)
    x = x / jnp.sqrt((x**2).mean(-1, keepdims=True) + EPSILON)
    return x * p["w"][None] + p["b"][None]


def plain_mlp(p, x):
    return dense(p["c"], jax.nn.relu(dense(p["b"], jax.nn.relu(dense(p["a"], x)))))


def plain_cnn(p, x):
    x = jax.nn.relu(conv(p["a"], x))
    x = x + jax.nn.relu(conv(p["b"], x))
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height // 2, 2, width // 2, 2, channels).max((2, 4)).reshape(batch, -1)
    return dense(p["d"], jax.nn.relu(layer_norm(p["norm"], dense(p["c"], x))))


# Flax Linen --------------------------------------------------------------------------------------


class LinenMlp(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(4, name="a")(x))
        return nn.Dense(2, name="c")(nn.relu(nn.Dense(5, name="b")(x)))


class LinenCnn(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(4, (3, 3), name="a")(x))
        x = x + nn.relu(nn.Conv(4, (3, 3), name="b")(x))
        x = nn.max_pool(x, (2, 2), (2, 2)).reshape(x.shape[0], -1)
        x = nn.LayerNorm(EPSILON, name="norm")(nn.Dense(5, name="c")(x))
        return nn.Dense(3, name="d")(nn.relu(x))


# Flax NNX ----------------------------------------------------------------------------------------


class NnxMlp(nnx.Module):
    def __init__(self, rngs):
        self.a = nnx.Linear(3, 4, rngs=rngs)
        self.b = nnx.Linear(4, 5, rngs=rngs)
        self.c = nnx.Linear(5, 2, rngs=rngs)

    def __call__(self, x):
        return self.c(nnx.relu(self.b(nnx.relu(self.a(x)))))


class NnxCnn(nnx.Module):
    def __init__(self, rngs):
        self.a = nnx.Conv(2, 4, (3, 3), rngs=rngs)
        self.b = nnx.Conv(4, 4, (3, 3), rngs=rngs)
        self.c = nnx.Linear(24, 5, rngs=rngs)
        self.norm = nnx.LayerNorm(5, epsilon=EPSILON, rngs=rngs)
        self.d = nnx.Linear(5, 3, rngs=rngs)

    def __call__(self, x):
        x = nnx.relu(self.a(x))
        x = x + nnx.relu(self.b(x))
        x = nnx.max_pool(x, (2, 2), (2, 2)).reshape(x.shape[0], -1)
        return self.d(nnx.relu(self.norm(self.c(x))))


# Equinox: one sample at a time, channels first, dense kernels [out, in] --------------------------


class EquinoxMlp(eqx.Module):
    a: eqx.nn.Linear
    b: eqx.nn.Linear
    c: eqx.nn.Linear

    def __init__(self, key):
        self.a = eqx.nn.Linear(3, 4, key=key)
        self.b = eqx.nn.Linear(4, 5, key=key)
        self.c = eqx.nn.Linear(5, 2, key=key)

    def __call__(self, x):
        return self.c(jax.nn.relu(self.b(jax.nn.relu(self.a(x)))))


class EquinoxCnn(eqx.Module):
    a: eqx.nn.Conv2d
    b: eqx.nn.Conv2d
    pool: eqx.nn.MaxPool2d
    c: eqx.nn.Linear
    norm: eqx.nn.LayerNorm
    d: eqx.nn.Linear

    def __init__(self, key):
        self.a = eqx.nn.Conv2d(2, 4, 3, padding="SAME", key=key)
        self.b = eqx.nn.Conv2d(4, 4, 3, padding="SAME", key=key)
        self.pool = eqx.nn.MaxPool2d(2, 2)
        self.c = eqx.nn.Linear(24, 5, key=key)
        self.norm = eqx.nn.LayerNorm(5, EPSILON)
        self.d = eqx.nn.Linear(5, 3, key=key)

    def __call__(self, x):
        x = jax.nn.relu(self.a(jnp.moveaxis(x, -1, 0)))
        x = x + jax.nn.relu(self.b(x))
        return self.d(jax.nn.relu(self.norm(self.c(self.pool(x).reshape(-1)))))


# Haiku -------------------------------------------------------------------------------------------


def haiku_mlp(x):
    x = jax.nn.relu(hk.Linear(4, name="a")(x))
    return hk.Linear(2, name="c")(jax.nn.relu(hk.Linear(5, name="b")(x)))


def haiku_cnn(x):
    x = jax.nn.relu(hk.Conv2D(4, 3, name="a")(x))
    x = x + jax.nn.relu(hk.Conv2D(4, 3, name="b")(x))
    x = hk.Flatten()(hk.MaxPool((2, 2, 1), (2, 2, 1), "VALID")(x))
    x = hk.LayerNorm(-1, True, True, EPSILON, name="norm")(hk.Linear(5, name="c")(x))
    return hk.Linear(3, name="d")(jax.nn.relu(x))


# Each as apply(params, x) and its parameters -----------------------------------------------------


def of_linen(network, x):
    module = {"mlp": LinenMlp, "cnn": LinenCnn}[network]()
    return module.apply, module.init(jax.random.key(0), x)


def of_nnx(network, x):
    model = {"mlp": NnxMlp, "cnn": NnxCnn}[network](nnx.Rngs(0))
    graphdef, params, rest = nnx.split(model, nnx.Param, ...)
    return lambda params, x: nnx.merge(graphdef, params, rest)(x), params


def of_equinox(network, x):
    model = {"mlp": EquinoxMlp, "cnn": EquinoxCnn}[network](jax.random.key(0))
    params, static = eqx.partition(model, eqx.is_inexact_array)
    return lambda params, x: jax.vmap(eqx.combine(params, static))(x), params


def of_haiku(network, x):
    init, apply = hk.without_apply_rng(hk.transform({"mlp": haiku_mlp, "cnn": haiku_cnn}[network]))
    return apply, init(jax.random.key(0), x)


PLAIN = {"mlp": plain_mlp, "cnn": plain_cnn}
FRAMEWORKS = {"linen": of_linen, "nnx": of_nnx, "equinox": of_equinox, "haiku": of_haiku}


def to_plain(framework, tree):
    """Parameters, or masks of them, as those of the plain function: HWIO, [in, out], HWC flat."""
    plain = {}
    for path, leaf in named_leaves(tree).items():
        layer, name = path.split("/")[-2:]
        if framework == "equinox":
            leaf = from_channels_first(leaf)
        plain.setdefault(layer, {})["b" if name in ("b", "bias", "offset") else "w"] = leaf
    return plain


def from_channels_first(leaf):
    if leaf.ndim == 4:
        return leaf.transpose(2, 3, 1, 0)
    if leaf.shape == (5, 24):  # reads 4 channels of 2 × 3, flattened
        return leaf.reshape(5, 4, 2, 3).transpose(2, 3, 1, 0).reshape(24, 5)
    return leaf.T if leaf.ndim == 2 else leaf.reshape(-1)


def from_plain(framework, plain, like):
    """The inverse of `to_plain`; it permutes entries, so this is its transpose."""
    return jax.linear_transpose(functools.partial(to_plain, framework), like)(plain)[0]
