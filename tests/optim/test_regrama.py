"""ReGraMa against its authors' program."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.optim import ReGraMa, attach_reset_method, sequential_units
from continual_learning.optim.scores import gradient_magnitude, normalized
from continual_learning.optim.trees import arrays


def reset_once(params, method, grads, graph):
    """One reset at the second call, the inner optimizer doing nothing and all moments one."""
    inner = optax.chain(optax.set_to_zero(), optax.trace(decay=1.0), optax.scale(0.0))
    tx = attach_reset_method(tx=inner, reset_method=method, units=graph)
    state = tx.init(params)
    trace = state.inner[1]._replace(trace=jax.tree.map(jnp.ones_like, params))
    state = state._replace(
        inner=(state.inner[0], trace, state.inner[2]), calls=jnp.asarray(1, state.calls.dtype)
    )
    updates, state = tx.update(grads, state, params)
    return optax.apply_updates(params, updates), updates, state


@pytest.mark.parametrize("name", ["regrama_dense", "regrama_conv"])
def test_golden(name, golden, layered, close, precision):
    g = golden(name)
    hidden = int(g["n_hidden"])
    params, grads = layered(g), layered(g, "grad_kernel", "grad_bias")
    kernels = [f"layer_{i}/kernel" for i in range(hidden + 1)]
    graph = sequential_units(params, kernels)
    score = gradient_magnitude(graph, arrays(grads), jnp.dtype(precision))
    scores = graph.unpack(normalized(graph, score, 1e-9))
    for i in range(hidden):
        close(scores[kernels[i]], g[f"score_{i}"])

    def init(key, shape, dtype):
        return jnp.full(shape, 99.0, dtype)

    @jax.jit
    def as_authors(tau):
        method = ReGraMa(tau, 1, zero_outgoing=False, init=init)
        return reset_once(params, method, grads, graph)

    @jax.jit
    def capped(tau, fraction):
        return reset_once(params, ReGraMa(tau, 1, fraction, init=init), grads, graph)

    for k, tau in enumerate(g["taus"]):
        new, updates, state = as_authors(tau)
        for i in range(hidden):
            layer, before = new[f"layer_{i}"], params[f"layer_{i}"]
            redrawn = g[f"redrawn_{i}"][k]
            close(layer["kernel"][redrawn], 99.0)
            np.testing.assert_array_equal(layer["kernel"][~redrawn], before["kernel"][~redrawn])
            assert (updates[f"layer_{i}"]["kernel"][~redrawn] == 0).all()
            changed = np.asarray(layer["bias"] != before["bias"])
            np.testing.assert_array_equal(changed, g[f"bias_redrawn_{i}"][k])
            assert (layer["bias"][changed] == 0).all()
            moments = state.inner[1].trace[f"layer_{i}"]
            np.testing.assert_array_equal(moments["kernel"] == 0, g[f"mom_zero_kernel_{i}"][k])
            np.testing.assert_array_equal(moments["bias"] == 0, g[f"mom_zero_bias_{i}"][k])
        last = f"layer_{hidden}"  # the output layer has no units
        jax.tree.map(np.testing.assert_array_equal, new[last], params[last])

        for f, fraction in enumerate(g["max_fracs"]):
            new, _, state = capped(tau, fraction)
            chosen = {kernels[i]: g[f"reset_cap_{i}"][k, f] for i in range(hidden)}
            np.testing.assert_array_equal(state.log.total, [c.sum() for c in chosen.values()])
            zeroed, redrawn = graph.outgoing(chosen), graph.incoming(chosen)
            for i in range(hidden + 1):
                kernel = new[f"layer_{i}"]["kernel"]
                gone = np.asarray(zeroed[f"layer_{i}"]["kernel"])
                fresh = np.asarray(redrawn[f"layer_{i}"]["kernel"]) & ~gone
                assert (kernel[gone] == 0).all()  # where both meet, the entry ends zero
                close(kernel[fresh], 99.0)
                moments = state.inner[1].trace[f"layer_{i}"]["kernel"]
                np.testing.assert_array_equal(moments == 0, gone | fresh)


def test_the_current_batch_alone_counts(mlp):
    params = mlp((3, 4, 2))
    grads = jax.tree.map(jnp.ones_like, params)
    grads["layer_0"]["kernel"] = grads["layer_0"]["kernel"].at[:, 2].set(0.0)
    new, _, _ = reset_once(params, ReGraMa(0.1, 1), grads, None)
    zeroed = (new["layer_1"]["kernel"] == 0).all(axis=1)
    np.testing.assert_array_equal(zeroed, [False, False, True, False])


def test_a_shared_entry_may_end_redrawn(mlp):
    params = mlp((3, 4, 5, 2))
    grads = jax.tree.map(jnp.ones_like, params)
    for layer, unit in (("layer_0", 2), ("layer_1", 1)):
        grads[layer]["kernel"] = grads[layer]["kernel"].at[:, unit].set(0.0)
    init = jax.nn.initializers.constant(99.0)
    for shared, both in (("zeroed", 0.0), ("redrawn", 99.0)):
        method = ReGraMa(0.1, 1, shared=shared, init=init)
        new, _, _ = reset_once(params, method, grads, None)
        expected = np.array(params["layer_1"]["kernel"])
        expected[2], expected[:, 1] = 0.0, 99.0
        expected[2, 1] = both
        np.testing.assert_array_equal(new["layer_1"]["kernel"], expected)
    with pytest.raises(ValueError, match="ReGraMa: shared must be"):
        ReGraMa(0.1, 1, shared="both")
