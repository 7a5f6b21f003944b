"""CBP against its authors' program, and what that program does not cover."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.optim import CBP, attach_reset_method, sequential_units
from continual_learning.optim.method import Step
from continual_learning.optim.scores import contribution, lowest
from continual_learning.optim.trees import arrays


def constant(value):
    return lambda key, shape, dtype: jnp.full(shape, value, dtype)


def attached(method, graph):
    """SGD that does nothing, with moments (filled with ones by the tests) to see what is zeroed."""
    inner = optax.chain(optax.trace(decay=1.0), optax.scale(0.0))
    return attach_reset_method(tx=inner, reset_method=method, units=graph)


@pytest.mark.parametrize("transfer", [False, True])
@pytest.mark.parametrize("name", ["cbp_mlp2", "cbp_mlp3"])
def test_golden_calls_with_teacher_forcing(name, transfer, golden, layered, close, precision):
    g = golden(name)
    hidden = int(g["n_hidden"])
    kernels = [f"layer_{i}/kernel" for i in range(hidden + 1)]
    graph = sequential_units(layered(g, at=0), kernels)
    method = CBP(
        replacement_rate=float(g["replacement_rate"]),
        decay=float(g["decay"]),
        maturity=int(g["maturity_threshold"]),
        transfer_bias=transfer,
        init=constant(99.0),
    )
    tx = attached(method, graph)

    @jax.jit
    def call(params, state, features):
        ones = jax.tree.map(jnp.ones_like, params)
        trace = state.inner[0]._replace(trace=ones)
        state = state._replace(inner=(trace, *state.inner[1:]))
        grads = jax.tree.map(jnp.zeros_like, params)
        updates, state = tx.update(grads, state, params, features=features)
        return updates, optax.apply_updates(params, updates), state

    state = tx.init(layered(g, at=0))
    replaced_ever = 0
    for t in range(len(g["acc_0"])):
        params = layered(g, at=t)
        features = {kernels[i]: jnp.asarray(g[f"feat_{i}"][t]) for i in range(hidden)}
        updates, new, state = call(params, state, features)
        age, utility, mean = (
            graph.unpack(getattr(state.method, f)) for f in ("age", "utility", "mean_feature")
        )
        for i in range(hidden):
            np.testing.assert_array_equal(age[kernels[i]], g[f"age_{i}"][t])
            close(utility[kernels[i]], g[f"util_{i}"][t])
            close(mean[kernels[i]], g[f"mean_act_{i}"][t])
            close(state.method.pending[i, 0], g[f"acc_{i}"][t])
            replaced_ever += g[f"replaced_{i}"][t].sum()
        bias = "bias_after_intended" if transfer else "bias_after"
        for i in range(hidden + 1):
            layer = new[f"layer_{i}"]
            redrawn, zeroed = g[f"redrawn_{i}"][t], g[f"zeroed_{i}"][t]
            expected = np.where(redrawn, 99.0, g[f"kernel_after_{i}"][t])
            close(layer["kernel"], expected, f"kernel {i} at {t}")
            assert (layer["kernel"][zeroed] == 0).all()
            alone = ~(redrawn | zeroed)
            assert (updates[f"layer_{i}"]["kernel"][alone] == 0).all()
            close(layer["bias"], g[f"{bias}_{i}"][t])
            moments = state.inner[0].trace[f"layer_{i}"]
            np.testing.assert_array_equal(moments["kernel"] == 0, g[f"mom_zero_kernel_{i}"][t])
            np.testing.assert_array_equal(moments["bias"] == 0, g[f"mom_zero_bias_{i}"][t])
    assert replaced_ever > 10
    np.testing.assert_allclose(state.log.total.sum(), replaced_ever)


def test_golden_choice_of_every_call(golden, layered, close):
    """Utilities before anything is replaced, and who is chosen, call by call."""
    g = golden("cbp_mlp3")
    hidden = int(g["n_hidden"])
    kernels = [f"layer_{i}/kernel" for i in range(hidden + 1)]
    params = layered(g, at=0)
    graph = sequential_units(params, kernels)
    method = CBP(
        replacement_rate=float(g["replacement_rate"]),
        decay=float(g["decay"]),
        maturity=int(g["maturity_threshold"]),
    )
    state = method.start(graph, params["layer_0"]["kernel"].dtype)

    @jax.jit
    def call(state, params, features):
        step = Step(0, jax.random.key(0), {}, arrays(params), features, {})
        state, _ = method.observe(graph, state, step)
        amount = method.amount(graph, state, step)
        corrected = method.corrected(state, state.utility)
        return state, corrected, amount, method.finish(state, amount)

    for t in range(len(g["acc_0"])):
        features = {kernels[i]: jnp.asarray(g[f"feat_{i}"][t]) for i in range(hidden)}
        pre, corrected, amount, state = call(state, layered(g, at=t), features)
        for i in range(hidden):
            n = graph.layers[i].size
            np.testing.assert_array_equal(pre.age[i, :n], g[f"age_pre_{i}"][t])
            close(pre.utility[i, :n], g[f"util_pre_{i}"][t])
            close(pre.mean_feature[i, :n], g[f"mean_act_pre_{i}"][t])
            close(corrected[i, :n], g[f"util_hat_{i}"][t])
            close(pre.pending[i, 0], g[f"acc_pre_{i}"][t])
            np.testing.assert_array_equal(amount.reset[i, :n], g[f"replaced_{i}"][t])


def test_conv_utility_by_hand():
    """Two channels on two positions, flattened in NHWC order, read by one dense output."""
    params = {
        "conv": {"kernel": jnp.ones((1, 1, 1, 2)), "bias": jnp.zeros(2)},
        "dense": {"kernel": jnp.array([[1.0], [10.0], [-3.0], [20.0]]), "bias": jnp.zeros(1)},
    }
    features = {
        "conv/kernel": jnp.array(  # [batch 2, position 2, channel 2]
            [[[1.0, -1.0], [3.0, 2.0]], [[-1.0, 3.0], [1.0, 0.0]]]
        )
    }
    graph = sequential_units(params, ["conv/kernel", "dense/kernel"])
    weights = {"dense/kernel": params["dense"]["kernel"]}
    # Channel 0: |1|·mean(1, 1), |−3|·mean(3, 1): (1 + 6)/2. Channel 1: 10·2, 20·1: (20 + 20)/2.
    np.testing.assert_allclose(
        contribution(graph, weights, features, jnp.float32), [[3.5, 20.0]], rtol=1e-6
    )
    # Read in NCHW order, the rows are channel 0 twice, then channel 1 twice.
    graph = sequential_units(params, ["conv/kernel", "dense/kernel"], flatten="channels_first")
    np.testing.assert_allclose(
        contribution(graph, weights, features, jnp.float32),
        [[(1 * 1 + 10 * 2) / 2, (3 * 2 + 20 * 1) / 2]],
        rtol=1e-6,
    )


def test_conv_reset_by_hand():
    """Conv to conv to dense: the lower channel of each is replaced, with its bias transfer."""
    params = {
        "a": {"kernel": jnp.full((1, 1, 1, 2), 5.0), "bias": jnp.array([1.0, 2.0])},
        "b": {"kernel": jnp.array([[[[1.0], [4.0]]]]), "bias": jnp.array([0.5])},
        "c": {"kernel": jnp.array([[2.0], [3.0]]), "bias": jnp.array([0.25])},
    }
    graph = sequential_units(params, ["a/kernel", "b/kernel", "c/kernel"])
    features = {
        "a/kernel": jnp.array([[[[2.0, 1.0], [4.0, 1.0]]]]),  # [1, 1, 2, 2]
        "b/kernel": jnp.array([[[[1.0], [1.0]]]]),  # [1, 1, 2, 1]
    }
    method = CBP(replacement_rate=0.5, decay=0.5, maturity=0, init=constant(9.0))
    tx = attached(method, graph)
    state = tx.init(params)
    grads = jax.tree.map(jnp.zeros_like, params)
    updates, state = tx.update(grads, state, params, features=features)
    new = optax.apply_updates(params, updates)
    # Layer a: utilities 1·3 and 4·1, so channel 0 goes; b has one unit and waits (0.5 pending).
    np.testing.assert_array_equal(state.log.total, [1, 0])
    np.testing.assert_allclose(state.method.pending[:, 0], [0.0, 0.5])
    np.testing.assert_array_equal(new["a"]["kernel"], [[[[9.0, 5.0]]]])
    np.testing.assert_array_equal(new["a"]["bias"], [0.0, 2.0])
    np.testing.assert_array_equal(new["b"]["kernel"], [[[[0.0], [4.0]]]])
    # Mean feature 3, bias-corrected to 3, through the weight 1, onto the bias 0.5.
    np.testing.assert_allclose(new["b"]["bias"], [3.5], rtol=1e-6)
    updates, state = tx.update(grads, state, new, features=features)
    new = optax.apply_updates(new, updates)
    # Now b's unit goes too: both rows of c that read it are zero, its bias too, and c takes over
    # mean feature 1 through 2 + 3. So does channel 1 of a, whose outgoing entry is b's incoming
    # one: re-drawn.
    np.testing.assert_array_equal(state.log.total, [2, 1])
    np.testing.assert_array_equal(new["b"]["kernel"].ravel(), [9.0, 9.0])
    np.testing.assert_array_equal(new["b"]["bias"], [0.0])
    np.testing.assert_array_equal(new["c"]["kernel"], [[0.0], [0.0]])
    np.testing.assert_allclose(new["c"]["bias"], [5.25], rtol=1e-6)


def test_without_accumulation_the_rate_is_kept_on_average(mlp, forward):
    params = mlp((4, 30, 20, 3))
    x = jax.random.normal(jax.random.key(0), (8, 4))
    method = CBP(replacement_rate=0.03, maturity=0, decay=0.9, accumulate=False)
    tx = attach_reset_method(tx=optax.sgd(1e-3), reset_method=method)

    @jax.jit
    def run(params):
        def step(carry, _):
            params, state = carry
            grads = jax.grad(lambda p: jnp.sum(forward(p, x)[0] ** 2))(params)
            _, features = forward(params, x)
            updates, state = tx.update(grads, state, params, features=features)
            return (optax.apply_updates(params, updates), state), None

        return jax.lax.scan(step, (params, tx.init(params)), length=1000)[0]

    _, state = run(params)
    # 30·0.03 = 0.9 and 20·0.03 = 0.6 a step, less the units that have just been replaced.
    np.testing.assert_allclose(state.log.total, [900, 600], rtol=0.1)
    assert (state.method.pending < 1).all()


def test_selection_is_exact_for_tiny_utilities(mlp):
    """Published code adds index·1e-6 to break ties and so picks wrong units; here none is added."""
    params = mlp((3, 5, 2))
    utility = np.array([5e-9, 4e-9, 1e-9, 3e-9, 2e-9])
    kernel = jnp.ones((5, 2))
    params["layer_1"]["kernel"] = kernel
    method = CBP(replacement_rate=0.4, maturity=0, decay=0.0, transfer_bias=False)
    tx = attached(method, None)
    features = {"layer_0/kernel": jnp.asarray(utility, jnp.float32)[None]}
    grads = jax.tree.map(jnp.zeros_like, params)
    updates, _ = tx.update(grads, tx.init(params), params, features=features)
    new = optax.apply_updates(params, updates)
    np.testing.assert_array_equal(
        (new["layer_1"]["kernel"] == 0).all(axis=1), [False, False, True, False, True]
    )


def test_ties_go_by_index_and_wide_layers_choose_alike():
    rng = np.random.default_rng(0)
    for width in (6, 1500):  # by counting, and by sorting
        score = rng.integers(0, 4, size=(3, width)).astype(np.float32)
        eligible = rng.random((3, width)) < 0.7
        number = np.array([[2], [width // 2], [0]])
        chosen = lowest(jnp.asarray(score), jnp.asarray(number), jnp.asarray(eligible))
        for row in range(3):
            candidates = np.flatnonzero(eligible[row])
            order = candidates[np.argsort(score[row, candidates], kind="stable")]
            expected = np.zeros(width, bool)
            expected[order[: number[row, 0]]] = True
            np.testing.assert_array_equal(chosen[row], expected)
