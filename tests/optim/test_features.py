"""Features and pre-activations taken out of a model, against models that return them."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.diagnostics import plasticity_metrics
from continual_learning.optim import CBP, ReDo, attach_reset_method, trace_units
from continual_learning.optim.tracing.program import Program


def arrays(seed=0, **shapes):
    rng = np.random.default_rng(seed)
    return {k: jnp.asarray(rng.normal(size=s), jnp.float32) for k, s in shapes.items()}


def close(found, expected, rtol=1e-5):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    compare = functools.partial(np.testing.assert_allclose, rtol=rtol, atol=rtol)
    jax.tree.map(compare, found, expected)


def conv(x, w, spec=("NHWC", "HWIO", "NHWC"), **kwargs):
    kwargs = {"window_strides": (1, 1), "padding": "SAME"} | kwargs
    return jax.lax.conv_general_dilated(x, w, dimension_numbers=spec, **kwargs)


def pool(x, window=(1, 2, 2, 1), init=-jnp.inf, op=jax.lax.max):
    return jax.lax.reduce_window(x, init, op, window, window, "VALID")


def normalize(x):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


# Each gives (output, {layer: feature}, {layer: pre-activation}) by hand. -----------------------


def mlp(p, x):
    z = x @ p["a"] + p["b"][None]
    h = jax.nn.swish(z)
    z2 = h @ p["c"]
    h2 = jax.nn.gelu(z2)
    return h2 @ p["d"], {"a": h, "c": h2}, {"a": z, "c": z2}


def cnn(p, x):
    z = conv(x, p["a"], window_strides=(2, 2)) + p["b"][None, None, None]
    h = jax.nn.relu(z)
    z2 = pool(h).reshape(len(x), -1) @ p["c"]
    h2 = jnp.tanh(z2)
    return h2 @ p["d"], {"a": h, "c": h2}, {"a": z, "c": z2}


def channels_first(p, x):
    z = conv(x, p["a"], ("NCHW", "OIHW", "NCHW"))
    h = jax.nn.relu(z)
    last = (0, 2, 3, 1)
    out = h.reshape(len(x), -1) @ p["c"]
    return out, {"a": h.transpose(last)}, {"a": z.transpose(last)}


def activation_after_flatten(p, x):
    z = conv(x, p["a"])
    flat = z.reshape(len(x), -1)
    h = jnp.sin(flat)
    at = h.reshape(len(x), -1, 3)
    return h @ p["c"], {"a": at}, {"a": z}


def activation_after_pooling(p, x):
    z = conv(x, p["a"])
    h = jax.nn.relu(pool(z))
    return h.mean((1, 2)) @ p["c"], {"a": h}, {"a": z}


def mean_pool(p, x):
    z = conv(x, p["a"])
    h = jnp.tanh(z)
    return h.mean((1, 2)) @ p["c"], {"a": h}, {"a": z}


def layer_norm(p, x):
    n = normalize(x @ p["a"]) * p["s"][None] + p["t"][None]
    h = jax.nn.relu(n)
    h2 = normalize(h @ p["c"])
    return h2 @ p["d"], {"a": h, "c": h2}, {"a": n, "c": h2}


def norm_after_activation(p, x):
    z = x @ p["a"]
    h = normalize(jnp.tanh(z)) * p["s"][None]
    return h @ p["c"], {"a": h}, {"a": z}


def residual(p, x):
    first = jax.nn.relu(x @ p["a"])
    z = jnp.tanh(first @ p["b"])
    total = first + z @ p["c"]
    h = jax.nn.relu(total)
    return h @ p["d"], {"a": h, "b": z}, {"a": total, "b": first @ p["b"]}


def concatenated(p, x):
    a, b = x @ p["a"], x @ p["b"]
    h = jnp.tanh(jnp.concatenate([b, x, a], -1))
    out = {"value": h @ p["c"], "advantage": h @ p["d"]}
    return out, {"a": h[:, 6:], "b": h[:, :3]}, {"a": a, "b": b}


def halves(p, x):
    z = x @ p["a"]
    one, two = jnp.split(z, 2, -1)
    h = jnp.concatenate([jnp.tanh(two), jax.nn.relu(one)], -1)
    feature = jnp.concatenate([jax.nn.relu(one), jnp.tanh(two)], -1)
    return h @ p["c"], {"a": feature}, {"a": z}


def ensemble(p, x):
    z = jnp.einsum("bi,eio->ebo", x, p["a"])
    h = jnp.tanh(z)
    out = jnp.einsum("ebi,eio->ebo", h, p["c"])
    flat = [y.transpose(1, 0, 2).reshape(len(x), -1) for y in (h, z)]
    return out, {"a": flat[0]}, {"a": flat[1]}


def stacked(p, x):
    def body(x, w):
        z = x @ w
        return jnp.tanh(z), z

    _, pre = jax.lax.scan(body, x, p["a"])
    names = ["a", "a#2", "a#3"]
    z = dict(zip(names, pre, strict=True))
    features = {k: jnp.tanh(v) for k, v in z.items()}
    return jnp.tanh(pre[2]) @ p["c"], features, z


def checkpointed(p, x):
    @jax.checkpoint
    def block(w, v, x):
        z = x @ w
        h = jax.nn.relu(z)
        z2 = h @ v
        return jnp.tanh(z2), h, z, z2

    h2, h, z, z2 = jax.jit(block)(p["a"], p["c"], x)
    return h2 @ p["d"], {"a": h, "c": h2}, {"a": z, "c": z2}


def half_precision(p, x):
    z = x.astype(jnp.bfloat16) @ p["a"].astype(jnp.bfloat16)
    h = jax.nn.relu(z)
    return h.astype(jnp.float32) @ p["c"], {"a": h}, {"a": z}


IMAGE = (6, 6, 2)
CASES = {
    "mlp": (mlp, {"a": (4, 5), "b": (5,), "c": (5, 3), "d": (3, 2)}, (4,)),
    "cnn": (cnn, {"a": (3, 3, 2, 4), "b": (4,), "c": (4, 5), "d": (5, 2)}, IMAGE),
    "channels_first": (channels_first, {"a": (3, 2, 3, 3), "c": (108, 2)}, (2, 6, 6)),
    "activation_after_flatten": (
        activation_after_flatten, {"a": (3, 3, 2, 3), "c": (108, 2)}, IMAGE,
    ),
    "activation_after_pooling": (
        activation_after_pooling, {"a": (3, 3, 2, 3), "c": (3, 2)}, IMAGE,
    ),
    "mean_pool": (mean_pool, {"a": (3, 3, 2, 3), "c": (3, 2)}, IMAGE),
    "layer_norm": (
        layer_norm, {"a": (4, 5), "s": (5,), "t": (5,), "c": (5, 3), "d": (3, 2)}, (4,),
    ),
    "norm_after_activation": (norm_after_activation, {"a": (4, 5), "s": (5,), "c": (5, 2)}, (4,)),
    "residual": (residual, {"a": (4, 5), "b": (5, 3), "c": (3, 5), "d": (5, 2)}, (4,)),
    "concatenated": (concatenated, {"a": (3, 4), "b": (3, 3), "c": (10, 1), "d": (10, 2)}, (3,)),
    "halves": (halves, {"a": (4, 6), "c": (6, 2)}, (4,)),
    "ensemble": (ensemble, {"a": (3, 4, 5), "c": (3, 5, 2)}, (4,)),
    "stacked": (stacked, {"a": (3, 4, 4), "c": (4, 2)}, (4,)),
    "checkpointed": (checkpointed, {"a": (4, 5), "c": (5, 3), "d": (3, 2)}, (4,)),
    "half_precision": (half_precision, {"a": (4, 5), "c": (5, 2)}, (4,)),
}  # fmt: skip


@pytest.mark.parametrize("traced_batch", [1, 7])
@pytest.mark.parametrize("name", CASES)
def test_features_are_those_that_the_model_would_return(name, traced_batch):
    by_hand, shapes, shape = CASES[name]
    params, x = arrays(**shapes), arrays(seed=1, x=(7, *shape))["x"]

    def apply(p, x):
        return by_hand(p, x)[0]

    graph = trace_units(apply, params, x[:traced_batch])
    found = jax.jit(graph.with_features(apply))(params, x)
    expected = jax.jit(by_hand)(params, x)
    assert graph.names == tuple(expected[1])
    close(found, expected)


@pytest.mark.parametrize("name", ["cnn", "residual", "stacked", "checkpointed", "layer_norm"])
def test_derivatives_are_the_models_own(name):
    by_hand, shapes, shape = CASES[name]
    params, x = arrays(**shapes), arrays(seed=1, x=(7, *shape))["x"]

    def apply(p, x):
        return by_hand(p, x)[0]

    traced = trace_units(apply, params, x).with_features(apply)
    found = jax.jit(jax.grad(lambda p: jnp.sum(jnp.square(traced(p, x)[0]))))(params)
    expected = jax.jit(jax.grad(lambda p: jnp.sum(jnp.square(apply(p, x)))))(params)
    close(found, expected, 1e-4)


def test_rules_of_ones_own_and_checkpoints_stay():
    @jax.custom_vjp
    def layer(w, x):
        return jax.nn.relu(x @ w)

    layer.defvjp(lambda w, x: (layer(w, x), (w, x)), lambda _, g: (jnp.full((3, 4), 7.0), None))

    def apply(p, x):
        return jax.checkpoint(lambda p, x: layer(p["a"], x) @ p["c"])(p, x)

    params, x = arrays(a=(3, 4), c=(4, 2)), jnp.ones((5, 3))
    graph = trace_units(apply, params, x)
    traced = graph.with_features(apply)
    _, features, pre = traced(params, x)
    np.testing.assert_allclose(pre["a"], x @ params["a"], rtol=1e-6)
    np.testing.assert_allclose(features["a"], jax.nn.relu(x @ params["a"]), rtol=1e-6)
    program = jax.make_jaxpr(jax.grad(lambda p: traced(p, x)[0].sum()))(params)
    assert "checkpoint[" in str(program) or "remat" in str(program)
    gradient = jax.grad(lambda p: traced(p, x)[0].sum())(params)
    np.testing.assert_array_equal(gradient["a"], 7.0)


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, train=True):
        x = nn.relu(nn.BatchNorm(use_running_average=False, name="bn")(nn.Conv(4, (3, 3))(x)))
        x = nn.max_pool(x, (2, 2), (2, 2)).reshape(x.shape[0], -1)
        return nn.Dense(2)(nn.Dropout(0.5, deterministic=not train)(nn.relu(nn.Dense(8)(x))))


@pytest.mark.parametrize(
    "method",
    [CBP(replacement_rate=0.3, maturity=1), ReDo(threshold=0.99, every=2)],
    ids=["CBP", "ReDo"],
)
def test_methods_that_need_features_on_a_flax_model(method):
    module, x = Net(), arrays(x=(6, 8, 8, 1))["x"]
    variables = module.init(jax.random.key(0), x, train=False)
    stats = variables["batch_stats"]

    def apply(params, stats, x, key):
        out, new = module.apply(
            {"params": params, "batch_stats": stats},
            x,
            rngs={"dropout": key},
            mutable="batch_stats",
        )
        return out, new["batch_stats"]

    def logits(params, stats, x, key):
        return apply(params, stats, x, key)[0]

    params, key = variables["params"], jax.random.key(1)
    graph = trace_units(logits, params, stats, x[:1], key)
    assert graph.untraced == ()
    tx = attach_reset_method(tx=optax.adam(1e-2), reset_method=method, units=graph)

    @jax.jit
    def step(params, state, stats, key):
        def loss(params):
            (out, new), features, pre = graph.with_features(apply)(params, stats, x, key)
            return jnp.mean(out**2), (new, features, pre)

        grads, (stats, features, pre) = jax.grad(loss, has_aux=True)(params)
        updates, state = tx.update(grads, state, params, features=features)
        metrics = plasticity_metrics(features, pre)
        return optax.apply_updates(params, updates), state, stats, metrics

    state = tx.init(params)
    for i in range(6):
        params, state, stats, metrics = step(params, state, stats, jax.random.fold_in(key, i))
    assert (state.log.total > 0).all()
    assert set(metrics["dormant_ratio"]) == {"total", *graph.names}


def test_under_vmap_over_seeds():
    by_hand, shapes, shape = CASES["mlp"]
    params = jax.tree.map(lambda *x: jnp.stack(x), *(arrays(seed=s, **shapes) for s in range(3)))
    x = arrays(seed=9, x=(3, 7, *shape))["x"]
    one = jax.tree.map(lambda w: w[0], params)
    graph = trace_units(lambda p, x: by_hand(p, x)[0], one, x[0])
    traced = graph.with_features(lambda p, x: by_hand(p, x)[0])
    found, expected = (jax.jit(jax.vmap(f))(params, x) for f in (traced, by_hand))
    close(found, expected)


def test_labels_are_made_for_a_small_batch_alone():
    """Whichever input has the batch as its first axis."""
    params, x = arrays(a=(4, 5), c=(5, 2)), jnp.ones((64, 4))

    def apply(p, mean, x, key):
        return jnp.tanh((x - mean[None]) @ p["a"] + jax.random.normal(key)) @ p["c"]

    program = Program(apply, params, (jnp.zeros(4), x, jax.random.key(0)))
    assert [leaf.shape for leaf in program.small.inputs] == [(4,), (1, 4), ()]


def test_a_graph_of_another_model_is_an_error():
    params, x = arrays(a=(4, 5), c=(5, 2)), jnp.ones((3, 4))
    graph = trace_units(lambda p, x: jnp.tanh(x @ p["a"]) @ p["c"], params, x)
    with pytest.raises(ValueError, match=r"made for another model.*no layer 'a' of 5 units"):
        graph.with_features(lambda p, x: jnp.tanh(x @ p["b"]) @ p["d"])(
            arrays(b=(4, 5), d=(5, 2)), x
        )


def test_units_that_no_weight_reads_are_named():
    params, x = arrays(a=(4, 5), c=(3, 2)), jnp.ones((3, 4))

    def apply(p, x):
        return jnp.tanh((x @ p["a"])[:, 1:4]) @ p["c"]

    graph = trace_units(apply, params, x)
    assert list(graph.names) == ["a"]
    with pytest.raises(ValueError, match=r"no weight reads units \[0, 4\] of layer 'a'.*CPR"):
        graph.with_features(apply)(params, x)
