"""Attention: value channels are units, queries and keys are pairs."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.optim import CBP, CPR, ReDo, attach_reset_method, trace_units
from tests.optim.unit_checks import assert_complete, check_units, linen, rows

PAIR = "passes through 'dot_general' as a query or key"
UNFOLLOWED = "adds to what parameters that are not followed make of the input"
X = jax.random.normal(jax.random.key(1), (2, 5, 3))


def attention(p, x, rotate=False, groups=1):
    """Heads of 4 channels; every key and value has `groups` queries."""
    q, k, v = (
        jnp.einsum("btd,dhc->bthc", x, p[name]) + p[f"{name}b"][None, None] for name in "qkv"
    )
    if rotate:
        q, k = rotated(q), rotated(k)
    k, v = jnp.repeat(k, groups, 2), jnp.repeat(v, groups, 2)
    weights = jax.nn.softmax(jnp.einsum("bthc,bshc->bhts", q, k) / 2)
    y = jnp.einsum("bhts,bshc->bthc", weights, v)
    return jnp.tanh(y.reshape(*y.shape[:2], -1) @ p["o"]) @ p["out"]


def rotated(x):
    angle = jnp.arange(x.shape[1])[None, :, None, None] * jnp.array([1.0, 0.1])[None, None, None]
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate(
        [a * jnp.cos(angle) - b * jnp.sin(angle), b * jnp.cos(angle) + a * jnp.sin(angle)], -1
    )


def weights(queries=2, heads=2):
    shapes = {"q": (3, queries, 4), "k": (3, heads, 4), "v": (3, heads, 4)}
    shapes |= {f"{name}b": shape[1:] for name, shape in shapes.items()}
    shapes |= {"o": (4 * queries, 5), "out": (5, 2)}
    rng = np.random.default_rng(0)
    return {k: jnp.asarray(rng.normal(size=shape), jnp.float32) for k, shape in shapes.items()}


@pytest.mark.parametrize("rotate", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("pairs", [False, True])
def test_value_channels_and_pairs(rotate, groups, pairs):
    params = weights(2, 2 // groups)

    def apply(p, x):
        return attention(p, x, rotate, groups)

    graph = trace_units(apply, params, X, pairs=pairs)
    channels = 8 // groups
    found = {name: rest for name, *rest in rows(graph)}
    if pairs:
        pair = channels // 2 if rotate else channels  # two channels are turned together
        assert found.pop("k") == [pair, {"k"}, {"kb"}, {"q", "qb"}]
    assert found == {
        "v": [channels, {"v"}, {"vb"}, {"o"}],
        "o": [5, {"o"}, set(), {"out"}],
    }
    reasons = dict(graph.untraced)
    assert reasons.keys() == (set() if pairs else {"q", "k", "qb", "kb"})
    if not pairs:
        assert reasons["q"] == reasons["k"] == PAIR
    assert_complete(graph)
    check_units(apply, graph, params, X, statistics=True)


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("heads", [1, 2])
def test_queries_that_share_a_key_without_a_copy_of_it(heads, pairs):
    """As in Gemma: an axis of groups, or a single key, and keys and values of one kernel."""
    rng = np.random.default_rng(0)
    shapes = {"q": (3, heads, 2, 4), "kv": (2, 3, heads, 4), "o": (heads, 2, 4, 5), "out": (5, 2)}
    params = {k: jnp.asarray(rng.normal(size=shape), jnp.float32) for k, shape in shapes.items()}

    def apply(p, x):
        q = jnp.einsum("btd,dkgc->btkgc", x, p["q"])
        k, v = jnp.einsum("btd,ndkc->nbtkc", x, p["kv"])
        q, k = rotated(q.reshape(*q.shape[:2], -1, 4)).reshape(q.shape), rotated(k)
        weights = jax.nn.softmax(jnp.einsum("btkgc,bskc->btkgs", q, k) / 2)
        y = jnp.einsum("btkgs,bskc->btkgc", weights, v)
        return jnp.tanh(jnp.einsum("btkgc,kgco->bto", y, p["o"])) @ p["out"]

    graph = trace_units(apply, params, X, pairs=pairs)
    size = 4 * heads + (2 * heads if pairs else 0)  # two channels of a key are turned together
    readers = {"o", "q"} if pairs else {"o"}
    assert rows(graph) == [
        ("kv", size, {"kv"}, set(), readers),
        ("o", 5, {"o"}, set(), {"out"}),
    ]
    assert dict(graph.untraced) == ({} if pairs else {"q": PAIR, "kv": PAIR})
    assert_complete(graph)
    check_units(apply, graph, params, X, units=size, statistics=True)


def test_channels_that_all_meet_are_refused():
    """Linear attention: every channel of a key meets every channel of a value."""
    params = weights(heads=1, queries=1)

    def apply(p, x):
        q, k, v = (jnp.einsum("btd,dhc->btc", x, p[name]) for name in "qkv")
        context = jnp.einsum("bsc,bse->bce", jax.nn.softmax(k, 1), v)
        return jnp.tanh(jnp.einsum("btc,bce->bte", q, context) @ p["o"]) @ p["out"]

    graph = trace_units(apply, params, X)
    assert graph.names == ("o",)
    assert {"q", "k", "v"} <= dict(graph.untraced).keys()
    assert_complete(graph)
    check_units(apply, graph, params, X)


def test_features_of_attention():
    params = weights()
    graph = trace_units(attention, params, X[:1], pairs=True)
    _, features, _ = jax.jit(graph.with_features(attention))(params, X)
    value = jnp.einsum("btd,dhc->bthc", X, params["v"]) + params["vb"][None, None]
    np.testing.assert_allclose(features["v"], value.reshape(2, 5, 8), rtol=1e-4, atol=1e-5)
    key = jnp.einsum("btd,dhc->bthc", X, params["k"]) + params["kb"][None, None]
    np.testing.assert_allclose(features["k"], key.reshape(2, 5, 8), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "method",
    [CPR(max_reset=0.5, every=1), CBP(replacement_rate=1, maturity=0), ReDo(threshold=2, every=1)],
    ids=["CPR", "CBP", "ReDo"],
)
def test_a_reset_of_pairs_takes_both(method):
    params = weights()
    graph = trace_units(attention, params, X, pairs=True)
    tx = attach_reset_method(tx=optax.sgd(0.0), reset_method=method, units=graph)
    state = tx.init(params)
    features = {layer.name: jnp.ones((2, layer.size)) for layer in graph.layers}
    for _ in range(2):
        grads = jax.tree.map(jnp.ones_like, params)
        updates, state = tx.update(grads, state, params, features=features)
        after = optax.apply_updates(params, updates)
    share = 0.5 if isinstance(method, CPR) else 0
    np.testing.assert_allclose(after["q"], share * params["q"], rtol=1e-5)
    np.testing.assert_allclose(after["qb"], share * params["qb"], rtol=1e-5)
    assert (after["k"] != params["k"]).all() and (after["k"] != 0).all()


class Transformer(nn.Module):
    """One block before the norms of which tokens are embedded, or projected."""

    tokens: bool

    @nn.compact
    def __call__(self, x):
        x = nn.Embed(7, 4, name="embed")(x) if self.tokens else nn.Dense(4, name="embed")(x)
        y = nn.LayerNorm(name="first")(x)
        x = x + nn.MultiHeadDotProductAttention(2, name="attention")(y)
        h = nn.gelu(nn.Dense(8, name="up")(nn.LayerNorm(name="second")(x)))
        x = x + nn.Dense(4, name="down")(h)
        return nn.Dense(7, name="out")(nn.LayerNorm(name="last")(x))


def test_flax_transformer_of_tokens():
    module, tokens = Transformer(True), jnp.arange(6).reshape(2, 3)
    params = module.init(jax.random.key(0), tokens)["params"]

    def apply(params, tokens):
        return module.apply({"params": params}, tokens)

    graph = trace_units(apply, params, tokens)
    assert rows(graph) == [
        ("attention/value/kernel", 4, {"attention/value/kernel"}, {"attention/value/bias"},
         {"attention/out/kernel"}),
        ("up/kernel", 8, {"up/kernel"}, {"up/bias"}, {"down/kernel"}),
    ]  # fmt: skip
    reasons = dict(graph.untraced)
    assert reasons.pop("embed/embedding") == "is used by 'gather'"
    assert reasons.pop("attention/out/kernel") == reasons.pop("down/kernel") == UNFOLLOWED
    for name in ("query", "key"):
        assert reasons.pop(f"attention/{name}/kernel") == PAIR
    assert reasons.keys() == {
        "first/scale", "first/bias", "second/scale", "second/bias", "last/scale", "last/bias",
        "attention/query/bias", "attention/key/bias", "attention/out/bias", "down/bias",
    }  # fmt: skip
    assert_complete(graph)
    check_units(apply, graph, params, tokens, statistics=True)


def test_flax_transformer_of_vectors_has_a_residual_stream_of_units():
    apply, params, x = linen(Transformer(False), 3, 3)
    graph = trace_units(apply, params, x)
    stream, value, hidden = rows(graph)
    prefix = "params/"
    assert stream[2] == {f"{prefix}{n}/kernel" for n in ("embed", "attention/out", "down")}
    assert {f"{prefix}{n}/kernel" for n in ("attention/query", "up", "out")} <= stream[4]
    assert (value[0], hidden[0]) == (f"{prefix}attention/value/kernel", f"{prefix}up/kernel")
    assert_complete(graph)
    check_units(apply, graph, params, x, statistics=True)


def test_values_of_a_fused_kernel_are_units_though_its_queries_and_keys_are_not():
    params = {"qkv": jnp.ones((3, 12)), "b": jnp.ones(12), "o": jnp.ones((4, 2))}

    def apply(p, x):
        q, k, v = jnp.split(x @ p["qkv"] + p["b"][None, None], 3, -1)
        return jax.nn.softmax(q @ k.swapaxes(1, 2)) @ v @ p["o"]

    graph = trace_units(apply, params, X)
    (layer,) = graph.layers
    np.testing.assert_array_equal(layer.incoming[0].index, [-1] * 8 + [0, 1, 2, 3])
    np.testing.assert_array_equal(layer.bias[0].index, [-1] * 8 + [0, 1, 2, 3])
    assert dict(graph.untraced) == {"qkv": PAIR}
    check_units(apply, graph, params, X, statistics=True)
    graph = trace_units(apply, params, X, pairs=True)
    (layer,) = graph.layers
    assert layer.size == 8
    np.testing.assert_array_equal(layer.incoming[0].index, [-1] * 4 + [*range(8)])
    assert [link.param for link in layer.outgoing] == ["o", "qkv", "b"]
    assert graph.untraced == ()
    check_units(apply, graph, params, X, statistics=True)
