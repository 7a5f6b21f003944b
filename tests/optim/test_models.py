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


class ActorCritic(nn.Module):
    """purejaxrl's and rejax's PPO: two networks without anything in common."""

    @nn.compact
    def __call__(self, x):
        actor = nn.Dense(3)(nn.tanh(nn.Dense(5)(nn.tanh(nn.Dense(4)(x)))))
        return nn.softmax(actor), nn.Dense(1)(nn.tanh(nn.Dense(6)(x)))


class Policy(nn.Module):
    """SAC's: an action that is squashed, and its log-probability."""

    @nn.compact
    def __call__(self, x, noise):
        x = nn.relu(nn.Dense(4)(nn.relu(nn.Dense(5)(x))))
        mean, log_std = nn.Dense(2)(x), jnp.clip(nn.Dense(2)(x), -10, 2)
        u = mean + jnp.exp(log_std) * noise
        return jnp.tanh(u), (-(noise**2) / 2 - log_std - jnp.log1p(1.01 - jnp.tanh(u) ** 2)).sum(-1)


class Dueling(nn.Module):
    """PQN's: a value and advantages around their mean."""

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.LayerNorm()(nn.Dense(5)(x)))
        value, advantage = nn.Dense(1)(x), nn.Dense(3)(x)
        return value + advantage - advantage.mean(-1, keepdims=True)


class Block(nn.Module):
    """Attention and an MLP; norms before them, or after the sums."""

    before: bool = True
    causal: bool = False

    @nn.compact
    def __call__(self, x, memory=None):
        def around(f, x):
            return x + f(nn.LayerNorm()(x)) if self.before else nn.LayerNorm()(x + f(x))

        mask = nn.make_causal_mask(x[..., 0]) if self.causal else None
        x = around(lambda y: nn.MultiHeadDotProductAttention(2)(y, mask=mask), x)
        if memory is not None:
            x = around(lambda y: nn.MultiHeadDotProductAttention(2)(y, memory), x)
        return around(lambda y: nn.Dense(4)(nn.gelu(nn.Dense(8)(y))), x)


class Bert(nn.Module):
    """Norms after the sums, and words that are read by their embedding."""

    @nn.compact
    def __call__(self, tokens):
        embed = nn.Embed(7, 4)
        x = Block(before=False)(nn.LayerNorm()(embed(tokens)))
        return embed.attend(nn.LayerNorm()(nn.gelu(nn.Dense(4)(x))))


class Lm1b(nn.Module):
    """Flax's and Haiku's language model: fixed positions, an output layer of its own."""

    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(7, 4)(tokens) + jnp.sin(jnp.arange(12.0)).reshape(1, 3, 4)
        return nn.Dense(7)(nn.LayerNorm()(Block(causal=True)(x)))


class Wmt(nn.Module):
    """An encoder, and a decoder that attends to it."""

    @nn.compact
    def __call__(self, source, target):
        embed = nn.Embed(7, 4)
        memory = nn.LayerNorm()(Block()(embed(source)))
        return nn.Dense(7)(nn.LayerNorm()(Block(causal=True)(embed(target), memory)))


class Vit(nn.Module):
    """Patches, and a token of the class that alone is read."""

    @nn.compact
    def __call__(self, x):
        x = nn.Conv(4, (4, 4), 4)(x).reshape(len(x), -1, 4)
        token = self.param("token", nn.initializers.normal(), (1, 1, 4))
        x = jnp.concatenate([jnp.broadcast_to(token, (len(x), 1, 4)), x], 1)
        return nn.Dense(3)(nn.LayerNorm()(Block()(x))[:, 0])


class Gemma(nn.Module):
    """One key for two queries, GeGLU, norms whose scale is one more than a parameter."""

    @nn.compact
    def __call__(self, tokens):
        def norm(x, name):
            scale = 1 + self.param(name, nn.initializers.zeros, (x.shape[-1],))
            return x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-6) * scale[None, None]

        embed = nn.Embed(7, 4)
        x = embed(tokens)
        y = norm(x, "first")
        q = nn.DenseGeneral((2, 4), use_bias=False, name="q")(y)
        k, v = jnp.split(nn.Dense(8, use_bias=False, name="kv")(y), 2, -1)
        weights = nn.softmax(jnp.einsum("bthc,bsc->bths", q, norm(k, "key")))
        y = jnp.einsum("bths,bsc->bthc", weights, v)
        x = x + norm(nn.DenseGeneral(4, (-2, -1), use_bias=False)(y), "second")
        y = norm(x, "third")
        y = nn.gelu(nn.Dense(6, use_bias=False)(y)) * nn.Dense(6, use_bias=False)(y)
        return embed.attend(norm(x + nn.Dense(4, use_bias=False)(y), "last"))


class ResNet(nn.Module):
    """Flax's and Haiku's in training mode: statistics of the batch, a projected shortcut."""

    @nn.compact
    def __call__(self, x):
        def norm(x):
            return nn.BatchNorm(use_running_average=False)(x)

        x = nn.relu(norm(nn.Conv(3, (3, 3), use_bias=False)(x)))
        for width, stride in ((3, 1), (4, 2)):
            y = nn.relu(norm(nn.Conv(width, (3, 3), stride, use_bias=False)(x)))
            y = norm(nn.Conv(width, (3, 3), use_bias=False)(y))
            if y.shape != x.shape:
                x = norm(nn.Conv(width, (1, 1), stride, use_bias=False)(x))
            x = nn.relu(x + y)
        return nn.Dense(2)(x.mean((1, 2)))


class DeepRNN(nn.Module):
    """Haiku's: two LSTMs, the second of which reads the input too."""

    @nn.compact
    def __call__(self, x):
        h = nn.RNN(nn.OptimizedLSTMCell(4))(x)
        y = nn.RNN(nn.OptimizedLSTMCell(5))(jnp.concatenate([x, h], -1))
        return nn.Dense(2)(jnp.concatenate([h, y], -1))


RNN = (jnp.zeros((2, 5)), (jax.random.normal(KEY, (4, 2, 3)), jnp.zeros((4, 2), bool)))


def asks(*attentions):
    """Return the kernels of queries and keys: "0/0" is the first attention of the first block."""
    paths = (path.replace("/", "/MultiHeadDotProductAttention_") for path in attentions)
    return {f"{path}/{name}/kernel" for path in paths for name in ("query", "key")}


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
    "PPO": (ActorCritic(), (VECTORS,), {}, [4, 5, 6], set()),
    "SAC": (Policy(), (VECTORS, jnp.ones((2, 2))), {}, [5, 4], set()),
    "PQN": (Dueling(), (VECTORS,), {}, [5], set()),
    "BERT": (Bert(), (TOKENS,), {}, [4, 8], asks("0/0") | {"Dense_0/kernel"}),
    "lm1b": (Lm1b(), (TOKENS,), {}, [4, 8], asks("0/0") | {"Embed_0/embedding"}),
    "wmt": (
        Wmt(), (TOKENS, TOKENS), {}, [4, 8, 4, 4, 8],
        asks("0/0", "1/0", "1/1") | {"Embed_0/embedding"},
    ),
    "ViT": (Vit(), (IMAGES,), {}, [4, 8], asks("0/0") | {"Conv_0/kernel"}),
    "Gemma": (Gemma(), (TOKENS,), {}, [4, 6], {"q/kernel"}),
    "Gemma, pairs": (Gemma(), (TOKENS,), {"pairs": True}, [8, 6], set()),
    "ResNet": (ResNet(), (IMAGES,), {}, [3, 3, 4, 4], set()),
    "DeepRNN": (DeepRNN(), (jax.random.normal(KEY, (2, 3, 2)),), {}, [4, 5], set()),
    "U-Net": (UNet(), (IMAGES,), {}, [4, 6, 4], set()),
    "VAE": (Vae(), (VECTORS, jnp.ones((2, 4))), {"output": lambda out: out}, [5, 6], set()),
}  # fmt: skip


def traced(name):
    """Return a model's graph, and its function, parameters and inputs; statistics are state."""
    module, inputs, options, *_ = MODELS[name]
    params = {**module.init(jax.random.key(0), *inputs)}
    own = params.pop("params")

    def apply(own, *inputs):
        return module.apply({"params": own, **params}, *inputs, mutable=[*params] or False)

    return trace_units(apply, own, *inputs, **options), apply, own, inputs


@pytest.mark.parametrize("name", MODELS)
def test_units_of_named_models(name):
    graph, *_ = traced(name)
    *_, units, left = MODELS[name]
    assert [layer.size for layer in graph.layers] == units
    linked = {link.param for layer in graph.layers for link in layer.links()}
    kernels = {path for path in dict(graph.untraced) if path.endswith(("kernel", "embedding"))}
    assert {path.removeprefix("Block_") for path in kernels - linked} == left
    assert_complete(graph)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_both_properties_of_named_models(name):
    graph, apply, params, inputs = traced(name)

    def outputs(params, *inputs):
        out = apply(params, *inputs)
        return {"PPO-RNN": lambda: out[1:], "ResNet": lambda: out[0]}.get(name, lambda: out)()

    check_units(outputs, graph, params, *inputs, statistics=True, matter=False)
