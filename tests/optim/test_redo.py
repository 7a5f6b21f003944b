"""ReDo against its authors' program."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.optim import ReDo, attach_reset_method, sequential_units
from continual_learning.optim.scores import feature_means, normalized


def reset_once(params, method, features, graph):
    """One reset at the second call, the inner optimizer doing nothing and all moments one."""
    inner = optax.chain(optax.trace(decay=1.0), optax.scale(0.0))
    tx = attach_reset_method(tx=inner, reset_method=method, units=graph)
    state = tx.init(params)
    trace = state.inner[0]._replace(trace=jax.tree.map(jnp.ones_like, params))
    state = state._replace(inner=(trace, *state.inner[1:]), calls=jnp.asarray(1, state.calls.dtype))
    grads = jax.tree.map(jnp.zeros_like, params)
    updates, state = tx.update(grads, state, params, features=features)
    return optax.apply_updates(params, updates), updates, state


@pytest.mark.parametrize("name", ["redo_dense", "redo_conv"])
def test_golden(name, golden, layered, close, precision):
    g = golden(name)
    hidden = int(g["n_hidden"])
    params = layered(g)
    kernels = [f"layer_{i}/kernel" for i in range(hidden + 1)]
    graph = sequential_units(params, kernels)
    features = {kernels[i]: jnp.asarray(g[f"act_{i}"]) for i in range(hidden)}
    _, magnitude = feature_means(graph, features, jnp.dtype(precision))
    scores = graph.unpack(normalized(graph, magnitude, 1e-9))
    for i in range(hidden):
        close(scores[kernels[i]], g[f"score_{i}"])

    @jax.jit
    def reset(tau):
        method = ReDo(tau, 1, init=lambda key, shape, dtype: jnp.full(shape, 99.0, dtype))
        return reset_once(params, method, features, graph)

    for k, tau in enumerate(g["taus"]):
        new, updates, state = reset(tau)
        np.testing.assert_array_equal(
            state.log.total, [g[f"reset_{i}"][k].sum() for i in range(hidden)]
        )
        for i in range(hidden + 1):
            layer, before = new[f"layer_{i}"], params[f"layer_{i}"]
            redrawn, zeroed = g[f"redrawn_{i}"][k], g[f"zeroed_{i}"][k]
            close(layer["kernel"][redrawn], 99.0)
            assert (layer["kernel"][zeroed] == 0).all()
            alone = ~(redrawn | zeroed)
            np.testing.assert_array_equal(layer["kernel"][alone], before["kernel"][alone])
            assert (updates[f"layer_{i}"]["kernel"][alone] == 0).all()
            close(layer["bias"], g[f"bias_after_{i}"][k])
            moments = state.inner[0].trace[f"layer_{i}"]
            np.testing.assert_array_equal(moments["kernel"] == 0, g[f"mom_zero_kernel_{i}"][k])
            np.testing.assert_array_equal(moments["bias"] == 0, g[f"alt_mom_zero_bias_{i}"][k])
        if name == "redo_conv" and g["reset_0"][k].any():
            wrong = g["wrong_repeat_zeroed_1"][k]
            assert not np.array_equal(np.asarray(new["layer_1"]["kernel"] == 0), wrong)


def test_a_shared_entry_may_end_redrawn(golden, layered, close):
    """As in a program that resets layer by layer: the CPR paper's, and torch's ReDo (golden)."""
    g = golden("redo_dense")
    hidden = int(g["n_hidden"])
    params = layered(g)
    kernels = [f"layer_{i}/kernel" for i in range(hidden + 1)]
    features = {kernels[i]: jnp.asarray(g[f"act_{i}"]) for i in range(hidden)}
    shared = 0
    for k, tau in enumerate(g["taus"]):
        method = ReDo(float(tau), 1, shared="redrawn", init=jax.nn.initializers.constant(99.0))
        new, _, _ = reset_once(params, method, features, sequential_units(params, kernels))
        for i in range(hidden + 1):
            redrawn, zeroed = g[f"alt_redrawn_{i}"][k], g[f"alt_zeroed_{i}"][k]
            np.testing.assert_array_equal(new[f"layer_{i}"]["kernel"] == 99.0, redrawn)
            np.testing.assert_array_equal(new[f"layer_{i}"]["kernel"] == 0, zeroed)
            shared += int((redrawn & g[f"zeroed_{i}"][k]).sum())
    assert shared > 0
    with pytest.raises(ValueError, match="ReDo: shared must be 'zeroed' or 'redrawn', got 'both'"):
        ReDo(0.1, 1, shared="both")


def test_at_most_a_fraction_is_reset_lowest_first(mlp):
    params = mlp((3, 6, 2))
    features = {"layer_0/kernel": jnp.array([[0.3, 0.1, 0.0, 9.0, 0.2, 0.4]])}
    reset = jax.jit(lambda fraction: reset_once(params, ReDo(0.9, 1, fraction), features, None))
    for fraction, expected in ((0.34, [2, 1]), (0.16, []), (1.0, [2, 1, 4, 0, 5]), (0.0, [])):
        new, _, _ = reset(fraction)
        zeroed = (new["layer_1"]["kernel"] == 0).all(axis=1)
        np.testing.assert_array_equal(np.flatnonzero(zeroed), sorted(expected))


def test_positions_are_averaged_after_the_absolute_value(mlp):
    """A channel whose values cancel over space is not dormant."""
    params = {
        "conv": {"kernel": jnp.ones((3, 3, 1, 2)), "bias": jnp.ones(2)},
        "out": {"kernel": jnp.ones((2, 1)), "bias": jnp.ones(1)},
    }
    graph = sequential_units(params, ["conv/kernel", "out/kernel"])
    value = jnp.array([[1.0, 1.0], [-1.0, 1.0]])[None, :, None, :]  # [1, 2, 1, channels]
    _, _, state = reset_once(params, ReDo(0.5, 1), {"conv/kernel": value}, graph)
    np.testing.assert_array_equal(state.log.total, [0])


def test_schedule_and_bad_arguments():
    method = ReDo(0.1, every=3)
    due = [bool(method.due((), jnp.asarray(t))) for t in range(7)]
    assert due == [False, False, False, True, False, False, True]
    with pytest.raises(ValueError, match="threshold must be at least 0"):
        ReDo(-0.1, 10)
    with pytest.raises(ValueError, match="max_reset_fraction must be at least 0 and at most 1"):
        ReDo(0.1, 10, max_reset_fraction=2.0)
