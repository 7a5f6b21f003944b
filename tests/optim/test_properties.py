"""What holds for every network, every choice of units and every name."""

import itertools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.optim import (
    CBP,
    CPR,
    ReDo,
    ReGraMa,
    ShrinkAndPerturb,
    attach_reset_method,
    recognize_units,
    sequential_units,
)
from continual_learning.optim.rewrite import kept, reset_units
from continual_learning.optim.trees import arrays

few = hypothesis.settings(max_examples=max(5, hypothesis.settings().max_examples // 8))


@st.composite
def networks(draw):
    """Layer names in order, and parameters; the input and output sizes differ."""
    hidden = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    sizes = [draw(st.integers(1, 3)), *hidden, draw(st.integers(4, 6))]
    names = draw(
        st.lists(
            st.text("abcdefgh_0123456789", min_size=1, max_size=6),
            min_size=len(sizes) - 1,
            max_size=len(sizes) - 1,
            unique=True,
        )
    )
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    params = {
        name: {
            "kernel": jnp.asarray(rng.normal(size=shape), jnp.float32),
            "bias": jnp.asarray(rng.normal(size=shape[1]), jnp.float32),
        }
        for name, shape in zip(names, itertools.pairwise(sizes), strict=True)
    }
    return names, params


def graph_of(names, params):
    return sequential_units(params, [f"{name}/kernel" for name in names])


@hypothesis.given(networks(), st.integers(0, 99), st.sampled_from(["before", "after", "kept"]))
def test_a_reset_touches_the_entries_of_its_units_and_no_others(network, seed, outgoing):
    names, params = network
    graph = graph_of(names, params)
    rng = np.random.default_rng(seed)
    units = {layer.name: rng.random(layer.size) < 0.4 for layer in graph.layers}
    reset = graph.pack([jnp.asarray(u, jnp.float32) for u in units.values()])
    fresh = {f"{name}/kernel": jnp.full(params[name]["kernel"].shape, 99.0) for name in names[:-1]}
    old = arrays(params)
    new = {**old, **reset_units(graph, old, reset, fresh, outgoing=outgoing)}
    share = kept(graph, reset, outgoing=outgoing)
    incoming, bias = arrays(graph.incoming(units)), arrays(graph.bias(units))
    read = arrays(graph.outgoing(units))
    for path, before in old.items():
        i, b, o = (np.asarray(m[path]) for m in (incoming, bias, read))
        o = o & (outgoing != "kept")
        expected = np.where(b, 0.0, before)
        for mask, value in ((o, 0.0), (i, 99.0)) if outgoing == "before" else ((i, 99.0), (o, 0.0)):
            expected = np.where(mask, value, expected)
        np.testing.assert_array_equal(new[path], expected)
        gone = np.broadcast_to(np.asarray(share.get(path, 1.0)) == 0, before.shape)
        np.testing.assert_array_equal(gone, i | b | o)


METHODS = [
    CPR(max_reset=0.3, every=1),
    CBP(replacement_rate=0.4, maturity=0),
    ReDo(threshold=0.9, every=1),
    ReGraMa(threshold=0.9, every=1),
    ShrinkAndPerturb(0.1, 0.1, 1),
]


def two_steps(tx, names, params):
    """Two updates with gradients and features that depend on the place of a layer alone."""
    grads, features = {}, {}
    for i, name in enumerate(names):
        rng = np.random.default_rng(i)
        grads[name] = jax.tree.map(
            lambda w, rng=rng: jnp.asarray(rng.normal(size=w.shape), w.dtype), params[name]
        )
        if i < len(names) - 1:
            width = params[name]["bias"].shape[0]
            features[f"{name}/kernel"] = jnp.asarray(rng.random((3, width)), jnp.float32)
    state = tx.init(params)
    for _ in range(2):
        updates, state = jax.jit(tx.update)(grads, state, params, features=features)
    return [updates[name] for name in names], state


@few
@hypothesis.given(networks(), st.sampled_from(METHODS), st.permutations(range(4)))
def test_renaming_layers_changes_nothing(network, method, order):
    names, params = network
    renamed = [f"{'zyxw'[i]}{i}" for i in order[: len(names)]]
    runs = []
    for these in (names, renamed):
        tree = {new: params[old] for new, old in zip(these, names, strict=True)}
        graph = graph_of(these, tree)
        tx = attach_reset_method(tx=optax.adam(1e-2), reset_method=method, units=graph)
        updates, state = two_steps(tx, these, tree)
        runs.append((updates, state.method, state.log, state.key))
    jax.tree.map(np.testing.assert_array_equal, runs[0], runs[1])


@few
@hypothesis.given(networks(), st.sampled_from([0, 1, 2, 3, 4]))
def test_a_rate_of_zero_is_the_inner_optimizer(network, which):
    method = [
        CPR(max_reset=0.0, every=1),
        CBP(replacement_rate=0.0, maturity=0),
        ReDo(threshold=0.9, every=1, max_reset_fraction=0.0),
        ReGraMa(threshold=0.9, every=1, max_reset_fraction=0.0),
        ShrinkAndPerturb(0.0, 0.0, 1),
    ][which]
    names, params = network
    inner = optax.adam(1e-2)
    tx = attach_reset_method(tx=inner, reset_method=method, units=graph_of(names, params))
    updates, _ = two_steps(tx, names, params)
    expected, _ = two_steps(optax.with_extra_args_support(inner), names, params)
    jax.tree.map(np.testing.assert_array_equal, updates, expected)


@hypothesis.given(
    st.lists(st.floats(0, 5, width=32), min_size=2, max_size=5),
    st.floats(0, 1, width=32, allow_subnormal=False),  # XLA flushes subnormal numbers to zero
)
@pytest.mark.parametrize("shape", ["sigmoid", "exp", "softplus", "linear"])
def test_limits_of_the_sharpness(shape, utilities, rho):
    """κ = 0 resets all units alike; κ → ∞ those up to the mean; both by ρ, never more."""
    params = {"a": {"kernel": jnp.ones((2, 5))}, "b": {"kernel": jnp.ones((5, 3))}}
    graph = recognize_units(params)
    utility = jnp.asarray((utilities * 5)[:5], jnp.float32)[None]
    state = CPR().start(graph, jnp.float32)._replace(utility=utility)

    def reset(sharpness):
        method = CPR(max_reset=rho, sharpness=sharpness, shape=shape)
        return np.asarray(method.amount(graph, state, None).reset)[0]  # pyright: ignore

    rho = np.float32(rho)
    np.testing.assert_allclose(reset(0.0), rho, rtol=1e-6)
    np.testing.assert_allclose(reset(np.inf), np.where(utility[0] <= 1, rho, 0), rtol=1e-6)
    between = reset(4.0)
    assert (between >= 0).all() and (between <= rho * (1 + 1e-6)).all()
