"""Per-sample scores, against one backward pass per sample."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.optim import CPR, attach_reset_method, trace_units
from tests.optim.test_features import CASES, arrays, close, conv


def time_distributed(p, x):
    h = jnp.tanh(x @ p["a"] + p["b"][None, None])
    return h.mean(1) @ p["c"]


def transposed(p, x):
    return jnp.tanh(p["a"] @ x.T).T @ p["c"]


def grouped(p, x):
    x = jax.nn.relu(conv(x, p["a"], window_strides=(2, 1), feature_group_count=2))
    return conv(jnp.tanh(x), p["b"], padding="VALID").mean((1, 2)) @ p["c"]


def first(name):
    by_hand, shapes, shape = CASES[name]
    return lambda p, x: by_hand(p, x)[0], shapes, shape


MODELS = {
    name: first(name)
    for name in ("mlp", "cnn", "channels_first", "residual", "ensemble", "stacked", "checkpointed")
} | {
    "time_distributed": (time_distributed, {"a": (3, 4), "b": (4,), "c": (4, 2)}, (5, 3)),
    "transposed": (transposed, {"a": (4, 3), "c": (4, 2)}, (3,)),
    "grouped": (grouped, {"a": (3, 3, 1, 4), "b": (2, 2, 4, 3), "c": (3, 2)}, (6, 6, 2)),
}


@pytest.mark.parametrize("name", MODELS)
def test_scores_are_means_of_per_sample_gradient_norms(name):
    apply, shapes, shape = MODELS[name]
    params, x = arrays(**shapes), arrays(seed=1, x=(6, *shape))["x"]
    graph = trace_units(apply, params, x[:1])

    def loss(p, x, weight):
        out = apply(p, x)
        batch = 1 if name == "ensemble" else 0
        each = jnp.square(jnp.moveaxis(out, batch, 0).reshape(len(x), -1)).sum(-1)
        return jnp.mean(weight * each)

    weight = jnp.arange(1.0, 7.0)
    value, grads, scores = jax.jit(graph.per_sample_scores(loss))(params, x, weight)
    expected = jax.value_and_grad(loss)(params, x, weight)
    close((value, grads), expected, 1e-4)

    one = jax.jit(jax.grad(lambda p, x, w: loss(p, x[None], w[None])))
    each = [one(params, x[i], weight[i]) for i in range(len(x))]
    for layer in graph.layers:
        for unit in range(layer.size):
            own = graph.incoming({layer.name: np.arange(layer.size) == unit})
            norms = [
                np.sqrt(
                    sum(
                        np.sum(np.square(np.asarray(g)[np.asarray(m)]))
                        for g, m in zip(jax.tree.leaves(g), jax.tree.leaves(own), strict=True)
                    )
                )
                for g in each
            ]
            np.testing.assert_allclose(scores[layer.name][unit], np.mean(norms), rtol=1e-4)


def test_calibrated_partial_resets_take_them():
    apply, shapes, shape = MODELS["cnn"]
    params, x = arrays(**shapes), arrays(seed=1, x=(6, *shape))["x"]
    graph = trace_units(apply, params, x[:1])
    tx = attach_reset_method(
        tx=optax.adam(1e-2), reset_method=CPR(every=2, score="per_sample"), units=graph
    )

    def loss(p, x):
        out = apply(p, x)
        return jnp.mean(out**2), out

    @jax.jit
    def step(params, state):
        (value, out), grads, scores = graph.per_sample_scores(loss, has_aux=True)(params, x)
        updates, state = tx.update(grads, state, params, sample_scores=scores)
        return optax.apply_updates(params, updates), state, value, out

    state = tx.init(params)
    for _ in range(4):
        params, state, value, out = step(params, state)
    assert out.shape == (6, 2) and jnp.isfinite(value)
    assert (state.log.total > 0).all()


def test_penalties_on_parameters_and_labels_do_not_disturb():
    params, x = arrays(a=(3, 4), c=(4, 5)), arrays(seed=1, x=(6, 3))["x"]

    def apply(p, x):
        return jax.nn.relu(x @ p["a"]) @ p["c"]

    graph = trace_units(apply, params, x)
    y = jnp.arange(6) % 5

    def loss(p, x, y, decay):
        each = optax.softmax_cross_entropy_with_integer_labels(apply(p, x), y)
        return each.mean() + decay * optax.tree.norm(p, squared=True)

    score = graph.per_sample_scores(loss)
    plain, decayed = (jax.jit(score)(params, x, y, d)[2]["a"] for d in (0.0, 0.1))
    np.testing.assert_allclose(plain, decayed, rtol=1e-5)
    h = x @ params["a"]
    logits = jax.nn.relu(h) @ params["c"]
    delta = (jax.nn.softmax(logits) - jax.nn.one_hot(y, 5)) @ params["c"].T * (h > 0)
    expected = jnp.mean(jnp.abs(delta) * jnp.linalg.norm(x, axis=1, keepdims=True), axis=0)
    np.testing.assert_allclose(plain, expected, rtol=1e-5)


def test_a_kernel_that_is_used_twice_is_an_error():
    params, x = arrays(a=(3, 4), c=(4, 2)), jnp.ones((5, 3))

    def apply(p, x):
        return jnp.tanh(x @ p["a"]) @ p["c"]

    graph = trace_units(apply, params, x)
    with pytest.raises(ValueError, match="a kernel of layer 'a' is used more than once"):
        graph.per_sample_scores(lambda p, x: jnp.mean(apply(p, x) - apply(p, x + 1)))(params, x)


def test_a_kernel_within_a_derivative_of_ones_own_is_an_error():
    @jax.custom_vjp
    def layer(w, x):
        return jnp.tanh(x @ w)

    layer.defvjp(lambda w, x: (layer(w, x), (w, x)), lambda saved, g: (saved[0], saved[1]))
    params, x = arrays(a=(3, 4), c=(4, 2)), jnp.ones((5, 3))

    def apply(p, x):
        return layer(p["a"], x) @ p["c"]

    graph = trace_units(apply, params, x)
    with pytest.raises(ValueError, match="layer 'a' is used inside 'custom_vjp_call"):
        graph.per_sample_scores(lambda p, x: jnp.mean(apply(p, x)))(params, x)
