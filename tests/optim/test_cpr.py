"""CPR against its reference, and its options."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.optim import (
    CPR,
    Link,
    attach_reset_method,
    recognize_units,
    sequential_units,
)
from continual_learning.optim.method import Step
from continual_learning.optim.rewrite import reset_units
from continual_learning.optim.shapes import SHAPES, phi
from continual_learning.optim.trees import arrays


def graph_of(params):
    return sequential_units(params, [f"{name}/kernel" for name in params])


@pytest.mark.parametrize("name", ["cpr_mlp", "cpr_conv"])
def test_golden_run_with_injected_draws(name, golden, layered, close, precision):
    g = golden(name)
    layers = int(g["n_hidden"])
    params = layered(g, "kernel_init", "bias_init")
    graph = graph_of(params)
    steps = jax.tree.map(
        lambda *x: jnp.stack(x),
        *[layered(g, "grad_kernel", "grad_bias", at=t) for t in range(int(g["n_calls"]))],
    )

    for shape in g["phi_shapes"]:
        method = CPR(
            max_reset=float(g["rho"]),
            sharpness=float(g["kappa"]),
            decay=float(g["beta"]),
            every=int(g["f"]),
            shape=str(shape),
        )

        @jax.jit
        def call(params, state, grads, fresh, t, method=method):
            grads = jax.tree.map(lambda x: x.astype(precision), grads)
            after = jax.tree.map(lambda w, x: w - float(g["lr"]) * x, params, grads)
            step = Step(t, jax.random.key(0), arrays(grads), arrays(after), {}, {})
            state, finite = method.observe(graph, state, step)
            amount = method.amount(graph, state, step)
            new = reset_units(graph, arrays(after), amount.reset, fresh, bias=False)
            return after, state, amount, new, method.finish(state, amount), finite

        p, state = params, method.start(graph, jnp.dtype(precision))
        resets = 0
        for t in range(int(g["n_calls"])):
            fresh = {
                f"layer_{i}/kernel": g[f"xi_{i}"][min(resets, len(g["reset_calls"]) - 1)]
                for i in range(layers)
            }
            grads = jax.tree.map(lambda x, t=t: x[t], steps)
            p, state, amount, new, finished, finite = call(p, state, grads, fresh, t)
            assert finite.all()
            u = graph.unpack(state.utility)
            due = bool(method.due(state, jnp.asarray(t)))
            assert due == (t in g["reset_calls"])
            if due:
                r = graph.unpack(amount.reset)
                for i in range(layers):
                    close(r[f"layer_{i}/kernel"], g[f"{shape}_r_{i}"][resets])
                for i in range(layers + 1):
                    close(p[f"layer_{i}"]["kernel"], g[f"{shape}_kernel_post_opt_{i}"][resets])
                    p[f"layer_{i}"]["kernel"] = new[f"layer_{i}/kernel"]
                    close(p[f"layer_{i}"]["kernel"], g[f"{shape}_kernel_after_{i}"][resets])
                state, resets = finished, resets + 1
            for i in range(layers):
                close(u[f"layer_{i}/kernel"], g[f"u_{i}"][t], f"u_{i} at {t}")
                close(graph.unpack(state.utility)[f"layer_{i}/kernel"], g[f"u_next_{i}"][t])
        for i in range(layers + 1):
            close(p[f"layer_{i}"]["kernel"], g[f"{shape}_kernel_final_{i}"])
            close(p[f"layer_{i}"]["bias"], g[f"bias_final_{i}"])


def test_golden_through_the_optimizer(golden, layered, close):
    """The whole path, with SGD inside; only what the draws never reach can be compared."""
    g = golden("cpr_mlp")
    params = layered(g, "kernel_init", "bias_init")
    method = CPR(
        max_reset=float(g["rho"]),
        sharpness=float(g["kappa"]),
        decay=float(g["beta"]),
        every=int(g["f"]),
    )
    tx = attach_reset_method(tx=optax.sgd(float(g["lr"])), reset_method=method)
    state = tx.init(params)
    update = jax.jit(tx.update)
    graph = recognize_units(params)
    for t in range(int(g["n_calls"])):
        grads = layered(g, "grad_kernel", "grad_bias", at=t)
        updates, state = update(grads, state, params)
        params = optax.apply_updates(params, updates)
        for i in range(2):
            utility = graph.unpack(state.method.utility)[f"layer_{i}/kernel"]
            close(utility, g[f"u_next_{i}"][t])
    close(params["layer_2"]["kernel"], g["sigmoid_kernel_final_2"])
    for i in range(3):
        close(params[f"layer_{i}"]["bias"], g[f"bias_final_{i}"])
    np.testing.assert_array_equal(state.log.resets, len(g["reset_calls"]))


@pytest.mark.parametrize("shape", SHAPES)
def test_phi_is_one_up_to_the_center_and_falls_above(shape):
    u = jnp.linspace(0, 3, 61)
    value = phi(shape, u, 4.0, 1.0)
    assert (value[u <= 1] == 1).all()
    assert (jnp.diff(value) <= 1e-7).all()
    assert ((value >= 0) & (value <= 1)).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_limits_of_the_sharpness(shape):
    u = jnp.array([0.0, 0.5, 1.0, 1.0001, 2.0, 10.0])
    np.testing.assert_array_equal(phi(shape, u, 0.0, 1.0), np.ones(6))
    np.testing.assert_array_equal(phi(shape, u, jnp.inf, 1.0), u <= 1)
    np.testing.assert_allclose(phi(shape, u, 1e9, 1.0), u <= 1, atol=1e-6)


def test_shapes_by_number_are_one_program():
    u = jnp.array([0.0, 1.0, 1.25, 2.0])
    numbers = jnp.repeat(jnp.arange(4), 3)
    sharpness = jnp.tile(jnp.array([0.0, 2.0, jnp.inf]), 4)
    found = jax.jit(jax.vmap(lambda n, k: phi(n, u, k, 1.0)))(numbers, sharpness)
    # By hand at κ = 2, z = κ(u − 1) = 0.5 and 2.
    expected = {
        "sigmoid": [2 / (1 + np.exp(0.5)), 2 / (1 + np.exp(2.0))],
        "exp": [np.exp(-0.5), np.exp(-2.0)],
        "softplus": [np.log(1 + np.exp(-0.5)) / np.log(2), np.log(1 + np.exp(-2.0)) / np.log(2)],
        "linear": [0.5, 0.0],
    }
    for i, shape in enumerate(expected):
        np.testing.assert_array_equal(found[3 * i], np.ones(4))
        np.testing.assert_allclose(found[3 * i + 1], [1, 1, *expected[shape]], rtol=1e-6)
        np.testing.assert_array_equal(found[3 * i + 2], [1, 1, 0, 0])
    assert list(expected) == list(SHAPES)


def test_a_shape_is_static_as_a_name_and_a_leaf_as_a_number():
    named, numbered = CPR(shape="exp"), CPR(shape=1)
    assert len(jax.tree.leaves(numbered)) == len(jax.tree.leaves(named)) + 1
    assert jax.tree.structure(named) != jax.tree.structure(CPR(shape="linear"))
    assert jax.tree.structure(numbered) == jax.tree.structure(CPR(shape=3))
    assert jax.tree.unflatten(jax.tree.structure(named), jax.tree.leaves(named)) == named


def run(params, method, grads, steps=3, tx=None, **extra):
    tx = attach_reset_method(tx=tx or optax.sgd(0.0), reset_method=method)
    state = tx.init(params)
    for _ in range(steps):
        updates, state = jax.jit(tx.update)(grads, state, params, **extra)
        params = optax.apply_updates(params, updates)
    return params, state


def test_biases_are_left_alone_unless_asked(mlp):
    params = mlp()
    grads = jax.tree.map(jnp.ones_like, params)
    plain, _ = run(params, CPR(max_reset=0.5, every=2), grads)
    moved, _ = run(params, CPR(max_reset=0.5, every=2, reset_bias=True), grads)
    for i in range(3):
        bias = params[f"layer_{i}"]["bias"]
        np.testing.assert_array_equal(plain[f"layer_{i}"]["bias"], bias)
        share = 0.5 if i < 2 else 1.0  # all utilities are 1; the output layer has no units
        np.testing.assert_allclose(moved[f"layer_{i}"]["bias"], share * bias, rtol=1e-6)


def test_the_output_layer_only_shrinks_by_its_inputs(mlp):
    params = mlp()
    grads = jax.tree.map(jnp.ones_like, params)
    new, _ = run(params, CPR(max_reset=0.25, every=2), grads)
    kernel = params["layer_2"]["kernel"]
    np.testing.assert_allclose(new["layer_2"]["kernel"], 0.75 * kernel, rtol=1e-6)


def test_a_traced_shape_and_sharpness_do_as_static_ones(mlp):
    params = mlp()
    grads = jax.tree.map(lambda x: jax.random.normal(jax.random.key(1), x.shape), params)

    def one(shape, sharpness):
        method = CPR(max_reset=0.5, every=2, shape=shape, sharpness=sharpness)
        tx = attach_reset_method(tx=optax.sgd(0.0), reset_method=method)
        state = tx.init(params)
        for _ in range(3):
            updates, state = tx.update(grads, state, params)
        return optax.apply_updates(params, updates)

    lanes = [("sigmoid", 0.5), ("exp", jnp.inf), ("softplus", 0.5), ("linear", 4.0)]
    numbers = jnp.array([list(SHAPES).index(shape) for shape, _ in lanes])
    together = jax.jit(jax.vmap(one))(numbers, jnp.array([kappa for _, kappa in lanes]))
    for i, (shape, kappa) in enumerate(lanes):
        alone = jax.jit(functools.partial(one, shape, float(kappa)))()
        jax.tree.map(
            lambda a, b, i=i: np.testing.assert_allclose(a[i], b, atol=1e-6), together, alone
        )


def test_outgoing_entries_stay_where_they_are_not_to_shrink(mlp):
    params = mlp()
    grads = jax.tree.map(jnp.ones_like, params)
    method = CPR(max_reset=0.25, every=2, shrink_outgoing=False, reset_moments=True)
    new, state = run(params, method, grads, tx=optax.adam(0.0))
    np.testing.assert_array_equal(new["layer_2"]["kernel"], params["layer_2"]["kernel"])
    # An entry between hidden layers is mixed by its reader alone: 3/4 of it, not 9/16.
    shrunk, bare = (
        run(params, dataclasses.replace(method, **change), grads, tx=optax.adam(0.0))
        for change in ({"shrink_outgoing": True}, {"max_reset": 0.0})
    )
    kernel = params["layer_1"]["kernel"]
    difference = new["layer_1"]["kernel"] - shrunk[0]["layer_1"]["kernel"]
    np.testing.assert_allclose(difference, (0.75 - 0.5625) * kernel, rtol=1e-4, atol=1e-7)
    share = {"layer_0": 0.75, "layer_1": 0.75, "layer_2": 1.0}
    for name, kept in share.items():
        mu, old = (each.inner[0].mu[name]["kernel"] for each in (state, bare[1]))
        np.testing.assert_allclose(mu, kept * old, rtol=1e-6)


def test_utilities_go_on_where_they_are_not_put_back():
    params = {
        "a": {"kernel": jnp.ones((1, 2)), "bias": jnp.zeros(2)},
        "b": {"kernel": jnp.ones((2, 1)), "bias": jnp.zeros(1)},
    }
    grads = jax.tree.map(jnp.zeros_like, params)
    grads["a"]["kernel"] = jnp.array([[1.0, 3.0]])  # scores 0.5 and 1.5
    method = CPR(decay=0.5, every=1)
    for steps in (2, 3):  # resets in the second and the third
        _, back = run(params, method, grads, steps)
        np.testing.assert_array_equal(back.method.utility, [[1, 1]])
        _, on = run(params, dataclasses.replace(method, recenter=False), grads, steps)
        far = 0.5 - 0.5 ** (steps + 1)  # from 1 towards 0.5 or 1.5, half of the way every step
        np.testing.assert_allclose(on.method.utility, [[1 - far, 1 + far]], rtol=1e-6)


def test_moments_stay_unless_asked(mlp):
    params = mlp()
    grads = jax.tree.map(jnp.ones_like, params)
    _, bare = run(params, CPR(max_reset=0.0, every=2), grads, tx=optax.adam(0.0))
    _, kept = run(params, CPR(max_reset=0.5, every=2), grads, tx=optax.adam(0.0))
    _, moved = run(
        params, CPR(max_reset=0.5, every=2, reset_moments=True), grads, tx=optax.adam(0.0)
    )
    jax.tree.map(np.testing.assert_array_equal, kept.inner, bare.inner)
    mu, old = moved.inner[0].mu, bare.inner[0].mu
    np.testing.assert_allclose(mu["layer_0"]["kernel"], 0.5 * old["layer_0"]["kernel"], rtol=1e-6)
    np.testing.assert_allclose(mu["layer_1"]["kernel"], 0.25 * old["layer_1"]["kernel"], rtol=1e-6)
    np.testing.assert_allclose(mu["layer_2"]["kernel"], 0.5 * old["layer_2"]["kernel"], rtol=1e-6)
    np.testing.assert_array_equal(mu["layer_0"]["bias"], old["layer_0"]["bias"])


def test_per_sample_scores_equal_the_norms_of_per_sample_gradients(mlp, forward):
    """|δ|·‖h‖ of a dense layer, as the caller computes it, drives the same utilities."""
    params = mlp((4, 6, 3))
    x = jax.random.normal(jax.random.key(0), (5, 4))

    def loss(params, x):
        return jnp.sum(forward(params, x[None])[0] ** 2)

    each = jax.vmap(jax.grad(loss), (None, 0))(params, x)
    norms = jnp.linalg.norm(each["layer_0"]["kernel"], axis=1)  # [batch, units]
    grads = jax.tree.map(lambda g: g.mean(0), each)
    method = CPR(score="per_sample", decay=0.0, every=10)
    for scores in (norms, norms.mean(0)):
        _, state = run(params, method, grads, 1, sample_scores={"layer_0/kernel": scores})
        expected = norms.mean(0) / norms.mean()
        np.testing.assert_allclose(state.method.utility[0], expected, rtol=1e-5)


def test_norm_scales_move_towards_one_with_reset_bias():
    params = {
        "a": {"kernel": jnp.ones((2, 3)), "bias": jnp.ones(3)},
        "b": {"kernel": jnp.ones((3, 1)), "bias": jnp.ones(1)},
        "norm": {"scale": jnp.full(3, 3.0), "bias": jnp.full(3, 2.0)},
    }
    graph = sequential_units(params, ["a/kernel", "b/kernel"])
    units = np.arange(3)
    layer = dataclasses.replace(
        graph.layers[0],
        bias=(*graph.layers[0].bias, Link("norm/bias", (0,), units)),
        scale=(Link("norm/scale", (0,), units),),
    )
    graph = dataclasses.replace(graph, layers=(layer,))
    reset = jnp.array([[0.0, 0.5, 1.0]])
    fresh = {"a/kernel": jnp.full((2, 3), 7.0)}
    new = reset_units(graph, arrays(params), reset, fresh)
    np.testing.assert_array_equal(new["norm/scale"], [3.0, 2.0, 1.0])
    np.testing.assert_array_equal(new["norm/bias"], [2.0, 1.0, 0.0])
    np.testing.assert_array_equal(new["a/bias"], [1.0, 0.5, 0.0])
    np.testing.assert_array_equal(new["a/kernel"], [[1.0, 4.0, 7.0]] * 2)
    np.testing.assert_array_equal(new["b/kernel"], [[1.0], [0.5], [0.0]])
    mask = graph.bias({"a/kernel": np.array([True, False, True])})
    np.testing.assert_array_equal(mask["norm"]["scale"], [True, False, True])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_reset": -0.1}, r"max_reset must be at least 0 and at most 1, got -0.1"),
        ({"max_reset": 1.5}, r"max_reset"),
        ({"every": 0}, r"every must be at least 1"),
        ({"decay": 2.0}, r"decay"),
        ({"sharpness": -1}, r"sharpness"),
        ({"shape": "cosine"}, r"shape must be one of \['sigmoid', 'exp', 'softplus', 'linear'\]"),
        ({"shape": 4}, r"or its number in this list; got 4"),
        ({"shape": -1}, r"shape must be one of"),
        ({"shape": 1.0}, r"shape must be one of"),
        ({"score": "gradient"}, r"score must be 'batch_gradient' or 'per_sample'"),
        ({"init": "he"}, r"init must be .as_initialized., one of he_uniform"),
    ],
)
def test_bad_arguments_are_refused_at_construction(arguments, message):
    with pytest.raises(ValueError, match=message):
        CPR(**arguments)


def test_numbers_given_as_text_are_refused():
    with pytest.raises(TypeError, match="max_reset must be a number"):
        CPR(max_reset="0.1")  # pyright: ignore
