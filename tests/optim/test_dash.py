"""DASH against its authors' program.

tests/golden/dash.npz comes from baekrok/DASH-Direction-Aware-SHrinking at commit 3d3cea6: `dash` of
utils/train_utils.py, in float64, on a torch network of two convolutions (3 × 2 with a bias, 1 × 1
without) and two dense layers, after some steps of SGD. It acts twice, with (α, λ) = (0.3, 0.3) and
(0.7, 0.05), each time on three batches of new data; noise is added to the weights in between. The
arrays are the weights before ("old0", "old1") and after ("new0", …), and the gradients of each
batch ("grad0_0", …), all in torch's layout.
"""

import dataclasses
import functools

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import strategies as st

from continual_learning.optim import DASH, Kernel, UnitGraph, attach_reset_method, sequential_units
from tests.optim.rollouts import assert_close, fresh, inner, jit, network, rollout, stream

NAMES = ("conv", "point", "a", "out")


def layers(g, prefix, layout):
    def leaf(w):
        if layout == "in_out" and w.ndim > 1:
            w = w.transpose(2, 3, 1, 0) if w.ndim == 4 else w.T
        return jnp.asarray(w)

    found = {n: {k: g.get(f"{prefix}_{n}_{k}") for k in ("kernel", "bias")} for n in NAMES}
    return jax.tree.map(leaf, found)  # None stands for no bias


def test_golden(golden, close, precision):
    g, layout = golden("dash"), "in_out" if precision == "float64" else "out_in"
    params = layers(g, "old0", layout)
    graph = sequential_units(
        params, [f"{n}/kernel" for n in NAMES], layout=layout, flatten="channels_first"
    )

    def optimizer(alpha, lam):
        method = dataclasses.replace(DASH(steps=3, init=fresh), alpha=alpha, lam=lam)
        return attach_reset_method(tx=optax.sgd(0.0), reset_method=method, units=graph)

    @jit
    def step(numbers, grads, state, params, task):
        updates, state = optimizer(*numbers).update(grads, state, params, task=task)
        return optax.apply_updates(params, updates), state

    state = jit(optimizer(0.3, 0.3).init)(params)
    for i, numbers in enumerate(zip(g["alpha"], g["lam"], strict=True)):
        old = params = layers(g, f"old{i}", layout)
        for batch in range(3):
            jax.tree.map(np.testing.assert_array_equal, params, old)
            grads = layers(g, f"grad{i}_{batch}", layout)
            params, state = step(numbers, grads, state, params, i + 1)
        jax.tree.map(close, params, layers(g, f"new{i}", layout))
    np.testing.assert_array_equal(state.log.resets, 2)


@functools.cache
def training():
    """(method, params, grads [steps, …], tasks [steps]) -> parameters after each step, state."""

    def run(method, params, grads, tasks):
        tx = attach_reset_method(tx=inner(), reset_method=method)

        def step(carry, now):
            (params, state), (grads, task) = carry, now
            updates, state = tx.update(grads, state, params, task=task)
            params = optax.apply_updates(params, updates)
            return (params, state), params

        (_, state), history = jax.lax.scan(step, (params, tx.init(params)), (grads, tasks))
        return history, state

    return jit(run)


def shares(grads, w, lam):
    """What stays of the parameters of a dense layer, given the average of its gradients."""

    def share(g, w):
        return np.clip(-(g * w).sum(0) / np.linalg.norm(g, axis=0) / np.linalg.norm(w, axis=0),
                       lam, 1)  # fmt: skip

    return {k: share(np.asarray(grads[k]), np.asarray(w[k])) for k in ("kernel", "bias")}


def by_hand(method, params, grads, tasks):
    """The same with momentum 0.9 and step size 0.05, step by step."""
    params, grads = (jax.tree.map(lambda x: np.array(x, np.float64), x) for x in (params, grads))
    trace, mean = (jax.tree.map(np.zeros_like, params) for _ in range(2))
    last, batches, history = 0, 0, []
    for t, task in enumerate(tasks):
        now = jax.tree.map(lambda g, t=t: g[t], grads)
        trace = jax.tree.map(lambda m, g: 0.9 * m + g, trace, now)
        params = jax.tree.map(lambda p, m: p - 0.05 * m, params, trace)
        if task != last:
            mean, batches = jax.tree.map(np.zeros_like, params), 0
        mean = jax.tree.map(lambda m, g: (1 - method.alpha) * m + method.alpha * g, mean, now)
        last, batches = task, batches + 1
        if batches == method.steps and any(x != 0 for x in tasks[: t + 1]):
            for name, layer in params.items():
                kept = shares(mean[name], layer, method.lam)
                params[name] = {k: kept[k] * w for k, w in layer.items()}
        history.append(params.copy())
    return jax.tree.map(lambda *x: np.stack(x), *history)


TASKS = {
    "two changes": [0, 1, 1, 1, 2, 2],
    "a task too short": [0, 1, 2, 2, 2, 0],
    "new in a later task": [3, 3, 3, 3, 3, 3],
    "no change": [0, 0, 0, 0, 0, 0],
}


@pytest.mark.parametrize("tasks", TASKS.values(), ids=TASKS)
def test_training_by_hand(tasks):
    params = network()
    grads, _ = stream(params, steps=6)
    method = DASH(init=fresh, alpha=0.4, lam=0.2, steps=2)
    history, state = training()(method, params, grads, np.array(tasks, np.int32))
    expected = by_hand(method, params, grads, tasks)
    assert_close(history, expected, rtol=1e-4, atol=1e-5)
    acts = {"two changes": 2, "a task too short": 1, "new in a later task": 1, "no change": 0}
    number = {tuple(t): acts[name] for name, t in TASKS.items()}[tuple(tasks)]
    np.testing.assert_array_equal(state.log.resets, number)


def test_the_log_counts_the_share_that_units_lose():
    params = network()
    grads, _ = stream(params, steps=6)
    tasks = np.array([0, 0, 0, 0, 0, 1], np.int32)
    _, state = training()(DASH(init=fresh), params, grads, tasks)
    plain, _ = training()(DASH(init=fresh, lam=1.0), params, grads, tasks)
    lost = []
    for name in ("layer_0", "layer_1"):
        before = jax.tree.map(lambda x: x[-1], plain[name])
        now = jax.tree.map(lambda g: g[-1], grads[name])
        lost.append((1 - shares(now, before, 0.3)["kernel"]).sum())
    np.testing.assert_allclose(state.log.total, lost, rtol=1e-4)


@functools.cache
def act_on(shape):
    """(gradient, weights, λ) -> weights after an act; the kernel is dense or of a convolution."""

    def run(grad, w, lam):
        method = dataclasses.replace(DASH(init=fresh), lam=lam)
        params, grads = {"kernel": w}, {"kernel": grad}
        graph = sequential_units(params, ["kernel"])
        tx = attach_reset_method(tx=optax.set_to_zero(), reset_method=method, units=graph)
        updates, _ = tx.update(grads, tx.init(params), params, task=1)
        return optax.apply_updates(params, updates)["kernel"]

    return jit(run)


@hypothesis.settings(max_examples=15)
@hypothesis.given(
    st.sampled_from([(4, 3), (3, 2, 2, 3)]),
    st.floats(0, 1),
    st.integers(0, 99),
    st.floats(1e-2, 1e2),
)
def test_weights_keep_a_share_of_at_least_lambda_whatever_the_size_of_gradients(
    shape, lam, seed, size
):
    rng = np.random.default_rng(seed)
    grad = rng.normal(size=shape).astype(np.float32)
    w = (rng.choice([-1, 1], shape) * rng.uniform(0.5, 2, shape)).astype(np.float32)
    lam = np.float32(lam)
    new = act_on(shape)(grad, w, lam)
    share = np.asarray(new) / w
    assert (share > lam - 1e-6).all() and (share < 1 + 1e-6).all()
    axes = (0,) if len(shape) == 2 else (0, 1)
    assert (np.ptp(share, axis=axes) < 1e-5).all()  # one share for a group
    np.testing.assert_allclose(act_on(shape)(size * grad, w, lam), new, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(act_on(shape)(-w, w, lam), w, rtol=1e-5)  # aligned weights stay
    np.testing.assert_allclose(act_on(shape)(w, w, lam), lam * w, rtol=1e-5, atol=1e-6)


def test_a_kernel_whose_gradient_is_not_finite_stays():
    w = np.ones((4, 3), np.float32)
    grad = np.where(np.arange(4)[:, None] == 1, np.nan, np.ones((4, 3))).astype(np.float32)
    np.testing.assert_array_equal(act_on((4, 3))(grad, w, np.float32(0.3)), w)
    zero = np.zeros((4, 3), np.float32)  # has no direction, so nothing is aligned with it
    np.testing.assert_allclose(act_on((4, 3))(zero, w, np.float32(0.3)), 0.3 * w)


def test_copies_shrink_apart():
    """A critic of two: an act on both is an act on each."""
    rng = np.random.default_rng(0)
    old, grads = ({"w": jnp.asarray(rng.normal(size=(2, 4, 3)), jnp.float32),
                   "b": jnp.asarray(rng.normal(size=(2, 3)), jnp.float32)}
                  for _ in range(2))  # fmt: skip

    def act(params, grads, kernel):
        shapes = {"w": params["w"].shape, "b": params["b"].shape}
        graph = UnitGraph((), (kernel,), shapes, jax.tree.structure(params))
        tx = attach_reset_method(
            tx=optax.sgd(0.0), reset_method=DASH(init=fresh, lam=0.05), units=lambda _: graph
        )
        updates, _ = tx.update(grads, tx.init(params), params, task=1)
        return optax.apply_updates(params, updates)

    one = jit(functools.partial(act, kernel=Kernel("w", bias="b")))
    both = Kernel("w", (1,), (2,), copies=(0,), bias="b")
    new = jit(functools.partial(act, kernel=both))(old, grads)
    for i in range(2):
        old_i, grads_i, new_i = (jax.tree.map(lambda x, i=i: x[i], x) for x in (old, grads, new))
        assert_close(new_i, one(old_i, grads_i))


def test_numbers_may_differ_between_lanes():
    params = network()
    data = stream(params)

    def run(every, alpha, lam, steps):
        numbers = {"every": every, "alpha": alpha, "lam": lam, "steps": steps}
        method = dataclasses.replace(DASH(every=1, init=fresh), **numbers)
        return rollout(attach_reset_method(tx=inner(), reset_method=method), params, data)

    every, steps = np.array([1, 2, 3, 99]), np.array([1, 2, 1, 1])
    alpha, lam = np.float32([0.3, 0.9, 0.1, 0.3]), np.float32([0.3, 0.0, 0.5, 0.3])
    together, single = jit(jax.vmap(run))(every, alpha, lam, steps), jit(run)
    for i in range(4):
        lane = jax.tree.map(lambda x, i=i: x[i], together)
        assert_close(lane, single(every[i], alpha[i], lam[i], steps[i]))
    np.testing.assert_array_equal(together[1].log.resets[:, 0], [4, 1, 1, 0])


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"alpha must be at least 0 and at most 1, got 1\.5"):
        DASH(alpha=1.5)
    with pytest.raises(ValueError, match=r"lam must be at least 0 and at most 1, got -0\.1"):
        DASH(lam=-0.1)
    with pytest.raises(ValueError, match="DASH: steps must be at least 1, got 0"):
        DASH(steps=0)
