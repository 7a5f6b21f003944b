"""Networks of today's agents and language models, a few lines each: what of them are units."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import pytest

from continual_learning.optim import trace_units
from tests.optim.unit_checks import assert_complete, check_units

KEY = jax.random.key(1)
VECTORS = jax.random.normal(KEY, (2, 3))
IMAGES = jax.random.normal(KEY, (2, 8, 8, 2))
TOKENS = jnp.arange(6).reshape(2, 3)


class AtariPPO(nn.Module):
    """CleanRL's: a convolutional torso and two heads."""

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(4, (3, 3), 2)(x / 255))
        x = nn.relu(nn.Conv(5, (2, 2), 1, padding="VALID")(x))
        x = nn.relu(nn.Dense(6)(x.reshape(len(x), -1)))
        return nn.Dense(3)(x), nn.Dense(1)(x)


class Impala(nn.Module):
    """Residual blocks between poolings."""

    @nn.compact
    def __call__(self, x):
        for width in (3, 4):
            x = nn.max_pool(nn.Conv(width, (3, 3))(x), (3, 3), (2, 2), "SAME")
            y = nn.Conv(width, (3, 3))(nn.relu(x))
            x = x + nn.Conv(width, (3, 3))(nn.relu(y))
        return nn.Dense(2)(nn.relu(nn.Dense(5)(nn.relu(x).reshape(len(x), -1))))


class C51(nn.Module):
    """Distributions over returns."""

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(5)(nn.relu(nn.Dense(4)(x))))
        return nn.softmax(nn.Dense(2 * 7)(x).reshape(-1, 2, 7))


class Critic(nn.Module):
    """TD3's and SAC's."""

    @nn.compact
    def __call__(self, s, a):
        x = nn.relu(nn.Dense(5)(jnp.concatenate([s, a], -1)))
        return nn.Dense(1)(nn.relu(nn.Dense(4)(x)))


class Quantiles(nn.Module):
    """IQN: the state's features times those of a quantile."""

    @nn.compact
    def __call__(self, x, tau):
        psi = nn.swish(nn.Dense(5)(x))
        phi = nn.relu(nn.Dense(5)(jnp.cos(tau * jnp.arange(1.0, 7.0)[None])))
        return nn.Dense(2)(nn.swish(nn.Dense(4)(psi * phi)))


class Recurrent(nn.Module):
    """purejaxrl's PPO-RNN: a GRU whose state is reset where an episode ends."""

    @nn.compact
    def __call__(self, hidden, ins):
        x, done = ins
        x = nn.relu(nn.Dense(4)(x))

        class Steps(nn.Module):
            @nn.compact
            def __call__(self, h, now):
                x, done = now
                h = jnp.where(done[:, None], jnp.zeros_like(h), h)
                return nn.GRUCell(h.shape[-1])(h, x)

        steps = nn.scan(Steps, variable_broadcast="params", split_rngs={"params": False})
        hidden, x = steps()(hidden, (x, done))
        actor = nn.Dense(2)(nn.relu(nn.Dense(6)(x)))
        return hidden, actor, nn.Dense(1)(nn.relu(nn.Dense(7)(x))).squeeze(-1)


class Gpt(nn.Module):
    """nanoGPT: fused projections, learned positions, tied embeddings."""

    @nn.compact
    def __call__(self, tokens):
        embed = nn.Embed(7, 4)
        x = embed(tokens) + self.param("position", nn.initializers.normal(), (3, 4))[None]
        q, k, v = jnp.split(nn.Dense(12)(nn.LayerNorm()(x)), 3, -1)
        q, k, v = (y.reshape(*y.shape[:2], 2, 2) for y in (q, k, v))
        x = x + nn.Dense(4)(nn.dot_product_attention(q, k, v).reshape(x.shape))
        x = x + nn.Dense(4)(nn.gelu(nn.Dense(8)(nn.LayerNorm()(x))))
        return embed.attend(nn.LayerNorm()(x))


class Llama(nn.Module):
    """RMSNorm, a key for two queries, SwiGLU, untied embeddings."""

    @nn.compact
    def __call__(self, tokens):
        def dense(width, name):
            return nn.Dense(width, use_bias=False, name=name)

        x = nn.Embed(7, 4, name="embed")(tokens)
        y = nn.RMSNorm(name="first")(x)
        q = dense(8, "q")(y).reshape(*y.shape[:2], 2, 4)
        k, v = (dense(4, n)(y).reshape(*y.shape[:2], 1, 4).repeat(2, 2) for n in "kv")
        x = x + dense(4, "o")(nn.dot_product_attention(q, k, v).reshape(*x.shape[:2], 8))
        y = nn.RMSNorm(name="second")(x)
        x = x + dense(4, "down")(nn.silu(dense(6, "gate")(y)) * dense(6, "up")(y))
        return dense(7, "head")(nn.RMSNorm(name="last")(x))


class UNet(nn.Module):
    """A skip connection across a bottleneck."""

    @nn.compact
    def __call__(self, x):
        skip = nn.relu(nn.GroupNorm(2)(nn.Conv(4, (3, 3))(x)))
        x = nn.relu(nn.Conv(6, (3, 3), 2)(skip))
        x = nn.relu(nn.ConvTranspose(4, (2, 2), (2, 2))(x))
        return nn.Conv(2, (3, 3))(jnp.concatenate([x, skip], -1))


class Vae(nn.Module):
    """Flax's: a sample between encoder and decoder."""

    @nn.compact
    def __call__(self, x, noise):
        h = nn.relu(nn.Dense(5)(x))
        mean, logvar = nn.Dense(4, name="mean")(h), nn.Dense(4, name="logvar")(h)
        z = mean + noise * jnp.exp(logvar / 2)
        return nn.Dense(3)(nn.relu(nn.Dense(6)(z))), mean, logvar


RNN = (jnp.zeros((2, 5)), (jax.random.normal(KEY, (4, 2, 3)), jnp.zeros((4, 2), bool)))
# id: (module, inputs, options, units of its layers, kernels that are left alone)
MODELS: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any], list[int], set[str]]] = {
    "Atari PPO": (AtariPPO(), (IMAGES,), {}, [4, 5, 6], set()),
    "IMPALA": (Impala(), (IMAGES,), {}, [3, 3, 4, 4, 5], set()),
    "C51": (C51(), (VECTORS,), {}, [4, 5], set()),
    "TD3": (Critic(), (VECTORS, VECTORS[:, :2]), {}, [5, 4], set()),
    "IQN": (Quantiles(), (VECTORS, VECTORS[:, :1]), {}, [5, 4], set()),
    "PPO-RNN": (Recurrent(), RNN, {}, [4, 5, 6, 7], set()),
    "nanoGPT": (Gpt(), (TOKENS,), {}, [4, 8], set()),
    "nanoGPT, pairs": (Gpt(), (TOKENS,), {"pairs": True}, [8, 8], set()),
    "Llama": (Llama(), (TOKENS,), {}, [4, 6], {"embed/embedding", "q/kernel", "k/kernel"}),
    "Llama, pairs": (Llama(), (TOKENS,), {"pairs": True}, [4, 4, 6], {"embed/embedding"}),
    "U-Net": (UNet(), (IMAGES,), {}, [4, 6, 4], set()),
    "VAE": (Vae(), (VECTORS, jnp.ones((2, 4))), {"output": lambda out: out}, [5, 6], set()),
}


@pytest.mark.parametrize("name", MODELS)
def test_named_models(name):
    module, inputs, options, units, left = MODELS[name]
    params = module.init(jax.random.key(0), *inputs)["params"]

    def apply(params, *inputs):
        return module.apply({"params": params}, *inputs)

    graph = trace_units(apply, params, *inputs, **options)
    assert [layer.size for layer in graph.layers] == units
    linked = {link.param for layer in graph.layers for link in layer.links()}
    kernels = {p for p in dict(graph.untraced) if p.endswith(("kernel", "embedding"))}
    assert kernels - linked == left
    assert_complete(graph)

    def outputs(params, *inputs):
        out = apply(params, *inputs)
        return out[1:] if name == "PPO-RNN" else out

    check_units(outputs, graph, params, *inputs, statistics=True, matter=False)
