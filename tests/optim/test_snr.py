"""Self-Normalized Resets against its authors' program, and by hand.

`tests/golden/snr.npz` holds a run of the functions `increment_neuron_ages_snr`,
`reset_neurons_snr_adam` and `update_tau` of github.com/ajozefiak/SelfNormalizedResets
(src/algorithms/snr.py at commit 8b84f0c of August 6, 2025), in float64, for 60 steps of Adam with
given gradients: batches of 100 examples of which one fires the units, a histogram of 12 batches,
thresholds that are estimated after every 12 steps, and 7 for every fresh weight. Its times are in
examples; the file has them in steps, which are batches.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continual_learning.optim import SNR, attach_reset_method, sequential_units
from tests.optim.rollouts import UNITS, assert_close, assert_equal, jit, network, rollout, stream

SEVEN = jax.nn.initializers.constant(7.0)


def features_of(fired):
    """{layer: [steps, batch, units]}, in which a unit fires for one of three examples, or not."""
    idle = -jnp.ones_like(fired)
    return jnp.stack([idle, fired, 0 * idle], axis=1)


def test_golden(golden, layered, close):
    g = golden("snr")
    params = layered(g)
    method = SNR(
        threshold=int(g["threshold"]),
        threshold_percentile=float(g["percentile"]),
        threshold_expansion_factor=float(g["factor"]),
        threshold_reset_freq=int(g["every"]),
        tau_max=int(g["tau_max"]),
        init=SEVEN,
    )
    tx = attach_reset_method(tx=optax.adam(float(g["learning_rate"])), reset_method=method)
    grads = layered(g, "kernel_grad", "bias_grad")
    grads = jax.tree.map(lambda x, p: x.astype(p.dtype), grads, params)
    features = {f"layer_{i}/kernel": features_of(jnp.asarray(g[f"value_{i}"])) for i in range(2)}

    @jit
    def run(params, data):
        def step(carry, now):
            params, state = carry
            updates, state = tx.update(now[0], state, params, features=now[1])
            params = optax.apply_updates(params, updates)
            return (params, state), (params, state.method.age, state.method.threshold)

        return jax.lax.scan(step, (params, tx.init(params)), data)

    (_, state), (after, age, threshold) = run(params, (grads, features))
    for i, size in enumerate((6, 5)):
        np.testing.assert_array_equal(age[:, i, :size], g[f"age_{i}"])
        np.testing.assert_array_equal(threshold[:, i, :size], g[f"threshold_{i}"])
    for i in range(3):
        layer = after[f"layer_{i}"]
        for part in ("kernel", "bias"):
            close(layer[part][:: int(g["kept"])], g[f"{part}_after_{i}"])
            moments = state.inner[0]
            close(moments.mu[f"layer_{i}"][part], g[f"mu_{part}_{i}"])
            close(moments.nu[f"layer_{i}"][part], g[f"nu_{part}_{i}"])
    assert len(np.unique(g["threshold_0"])) > 3  # thresholds shrank and grew
    assert (g["kernel_after_0"] == 7).any()


def observed(numbers, fired):
    """Run three units that fire as given, [steps, units]; the states of all steps, and the end."""
    tx = attach_reset_method(tx=optax.sgd(0.0), reset_method=SNR(*numbers, tau_max=4, init=SEVEN))
    params = network(sizes=(2, 3, 1))

    def step(carry, now):
        params, state = carry
        updates, state = tx.update(params, state, params, features={UNITS[0]: now[None]})
        return (optax.apply_updates(params, updates), state), state

    (params, _), states = jax.lax.scan(step, (params, tx.init(params)), fired)
    return states, params


compiled = jit(observed)


def padded(fired, steps=12):
    """Let all units fire in further steps, so that one program serves all tests."""
    return jnp.concatenate([jnp.asarray(fired, jnp.float32), jnp.ones((steps, 3))])[:steps]


def test_ages_thresholds_and_resets_by_hand():
    """Unit 0 fires every third step, unit 1 never, unit 2 always; τ starts at 3, p = 0.5."""
    fired = jnp.array([[t % 3 == 0, False, True] for t in range(12)], jnp.float32)
    states, params = compiled((3.0, 0.5, 2.0, 6), fired)
    ages = [
        [0, 1, 2, 0, 1, 2, 0, 1, 0, 0, 1, 0],  # τ is 2 from step 6 on: steps 8 and 11 reset
        [1, 2, 0, 1, 2, 0, 1, 2, 3, 0, 1, 2],  # steps 2, 5 reset; then τ is 6, at most tau_max = 4
        [0] * 12,
    ]
    np.testing.assert_array_equal(states.method.age[:, 0], np.transpose(ages))
    np.testing.assert_array_equal(states.method.threshold[5, 0], [3, 3, 3])
    np.testing.assert_array_equal(states.method.threshold[6:, 0], [[2, 4, 1]] * 6)
    np.testing.assert_array_equal(states.method.times[5, 0], [[0, 1, 0, 0], [0, 0, 2, 0], [0] * 4])
    np.testing.assert_array_equal(states.log.total[:, 0], [0, 0, 1, 1, 1, 2, 2, 2, 3, 4, 4, 5])
    np.testing.assert_array_equal(params["layer_0"]["kernel"] == 7, [[True, True, False]] * 2)
    np.testing.assert_array_equal(params["layer_1"]["kernel"][:2], 0)
    np.testing.assert_array_equal(
        params["layer_1"]["kernel"][2], network(sizes=(2, 3, 1))["layer_1"]["kernel"][2]
    )


def test_a_unit_that_always_fired_is_reset_when_it_stops():
    fired = jnp.ones((12, 3)).at[7].set(0)
    states, params = compiled((3.0, 0.5, 2.0, 6), fired)
    np.testing.assert_array_equal(states.log.total[:, 0], [0] * 7 + [3] * 5)
    np.testing.assert_array_equal(params["layer_0"]["kernel"], 7)


@given(seed=st.integers(0, 10**6), every=st.integers(1, 9))
def test_bounds(seed, every):
    """Ages stay below τ, τ within its bounds, and a unit is reset only after τ idle steps."""
    rng = np.random.default_rng(seed)
    fired = jnp.asarray(rng.uniform(size=(12, 3)) < rng.uniform(size=3), jnp.float32)
    states, _ = compiled((2.0, 0.8, 2.0, every), fired)
    age, threshold = states.method.age[:, 0], states.method.threshold[:, 0]
    assert (age < threshold).all()
    assert ((threshold >= 1) & (threshold <= 4)).all()
    assert (age[fired > 0] == 0).all()
    assert (states.method.times >= 0).all()
    assert (states.method.times.sum(axis=-1)[:, 0] <= every).all()


def test_lanes_with_other_numbers_equal_single_runs():
    numbers = (
        jnp.array([2.0, 3.0]),
        jnp.array([0.5, 0.9]),
        jnp.array([2.0, 1.5]),
        jnp.array([3, 5]),
    )
    fired = jnp.asarray(np.random.default_rng(1).uniform(size=(12, 3)) < 0.5, jnp.float32)
    lanes = jit(jax.vmap(observed, in_axes=(0, None)))(numbers, fired)
    for i in range(2):
        alone = compiled(tuple(n[i] for n in numbers), fired)
        assert_close(jax.tree.map(lambda x, i=i: x[i], lanes), alone)
    assert not np.array_equal(lanes[0].log.total[0], lanes[0].log.total[1])


def test_a_layer_that_is_not_finite_keeps_its_ages():
    fired = padded([[0, 0, 1], [0, np.nan, 1], [0, -np.inf, 1], [0, 0, 1]])
    states, _ = compiled((9.0, 0.5, 2.0, 100), fired)
    np.testing.assert_array_equal(
        states.method.age[:, 0], [[1, 1, 0]] * 3 + [[2, 2, 0]] + [[0] * 3] * 8
    )
    np.testing.assert_array_equal(states.log.skipped[:, 0], [0, 1] + [2] * 10)


def test_a_channel_fires_if_it_does_at_any_position():
    value = jnp.zeros((2, 2, 2, 3)).at[1, 0, 1, 0].set(0.1).at[..., 1].set(-1.0)
    params = {"a": {"kernel": jnp.ones((3, 3, 1, 3))}, "b": {"kernel": jnp.ones((3, 1))}}
    graph = sequential_units(params, ["a/kernel", "b/kernel"])
    method = SNR(threshold=5, tau_max=2)
    tx = attach_reset_method(tx=optax.sgd(0.1), reset_method=method, units=graph)
    with pytest.raises(ValueError, match="features"):
        jax.eval_shape(lambda p: tx.update(p, tx.init(p), p), params)
    start = jit(tx.init)(params)
    _, state = jit(tx.update)(params, start, params, features={"a/kernel": value})
    np.testing.assert_array_equal(state.method.age, [[0, 1, 1]])


def test_nothing_happens_while_all_units_fire():
    params = network()
    grads, features = stream(params)
    features = jax.tree.map(jnp.ones_like, features)
    method = SNR(threshold=1, threshold_reset_freq=2, tau_max=3)
    tx = attach_reset_method(tx=optax.sgd(0.1), reset_method=method)
    new, state = jit(functools.partial(rollout, tx))(params, (grads, features))
    alone, _ = jit(functools.partial(rollout, optax.with_extra_args_support(optax.sgd(0.1))))(
        params, (grads, features)
    )
    assert_equal(new, alone)
    np.testing.assert_array_equal(state.log.total, 0)


def test_bad_arguments():
    for option, value in {
        "threshold": 0.5,
        "threshold_percentile": 1.5,
        "threshold_expansion_factor": 0.5,
        "threshold_reset_freq": 0,
        "tau_max": 0,
    }.items():
        with pytest.raises(ValueError, match=f"SNR: {option} must be at least"):
            SNR(**{option: value})
