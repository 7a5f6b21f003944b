"""C-CHAIN: the loss with churn, its coefficient, and parity with the authors' DQN.

tests/golden/churn.npz holds eight updates by `DoubleDQN_CCHAIN.train` of
crl_minatar/agents/double_dqn_c_chain.py in github.com/bluecontra/C-CHAIN at commit 2f8bedf: weights
before and after, both batches of every update, losses, churns and coefficients in float32. The code
ran with a network 4-5-2 in place of its convolutions, with batches from arrays in place of its
replay, and with its constants 10000 and 50000, from when and over how many updates the coefficient
is adjusted, replaced by 4 and 3.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continual_learning.optim import reduce_churn
from continual_learning.optim.churn import mean_square
from tests.optim.rollouts import jit

GOLDEN = Path(__file__).parents[1] / "golden" / "churn.npz"


def linear(params, x):
    return x @ params["w"]


def loss(params, x, y):
    return jnp.mean(jnp.square(linear(params, x) - y))


W = {"w": jnp.array([[1.0], [2.0]])}
X, Y, OTHER = jnp.array([[1.0, 0.0]]), jnp.array([[3.0]]), jnp.array([[0.0, 1.0], [1.0, 1.0]])


def test_the_authors_updates():
    with np.load(GOLDEN, allow_pickle=False) as file:
        g = {name: jnp.asarray(file[name]) for name in file}

    def parameters(when):
        return {
            name: {"w": g[f"{when}/{name}.weight"].T, "b": g[f"{when}/{name}.bias"]}
            for name in ("hidden", "output")
        }

    def q(p, x):
        h = jax.nn.relu(x @ p["hidden"]["w"] + p["hidden"]["b"][None])
        return h @ p["output"]["w"] + p["output"]["b"][None]

    def double_dqn(p, frozen, s, a, r, s2, d):
        best = jnp.argmax(q(jax.lax.stop_gradient(p), s2), axis=1, keepdims=True)
        value = jnp.take_along_axis(q(frozen, s2), best, axis=1)[:, 0]
        taken = jnp.take_along_axis(q(p, s), a[:, None], axis=1)[:, 0]
        return jnp.mean(jnp.square(taken - (r + 0.99 * (1 - d) * value)))

    churn = reduce_churn(double_dqn, q, coefficient=50, target=0.01, warmup=4, window=3)
    tx, start = optax.adam(0.02), parameters("init")

    def step(carry, now):
        (params, opt, state), (reference, *batch) = carry, now
        grad = jax.value_and_grad(churn.loss, has_aux=True)
        (_, aux), grads = grad(params, state, reference, start, *batch)
        updates, opt = tx.update(grads, opt, params)
        row = aux.loss, aux.churn, aux.state.coefficient
        return (optax.apply_updates(params, updates), opt, aux.state), row

    batches = g["reference"], *(g[f"batch/{name}"] for name in ("s", "a", "r", "s2", "d"))
    start_of = (start, tx.init(start), churn.init(start))
    (params, _, _), rows = jit(lambda: jax.lax.scan(step, start_of, batches))()
    for name, row in zip(("loss", "churn", "coefficient"), rows, strict=True):
        np.testing.assert_allclose(row, g[name], rtol=2e-3, atol=1e-7, err_msg=name)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), params, parameters("final")
    )


def test_known_answers():
    """λ = 10: the loss is (1 − 3)² = 4, then w moves to (2, 2.5), and outputs by 0.5 and 1.5."""
    churn = reduce_churn(loss, linear, coefficient=10.0, target=None, window=4)
    value_and_grad = jit(jax.value_and_grad(churn.loss, has_aux=True))
    state = churn.init(W)
    (value, aux), grads = value_and_grad(W, state, OTHER, X, Y)
    assert (float(value), float(aux.loss), float(aux.churn)) == (4, 4, 0)
    np.testing.assert_array_equal(grads["w"], [[-4.0], [0.0]])
    moved = {"w": jnp.array([[2.0], [2.5]])}
    (value, aux), grads = value_and_grad(moved, aux.state, OTHER, X, Y)
    mean = (0.5**2 + 1.5**2) / 2
    assert (float(value), float(aux.loss), float(aux.churn)) == (1 + 10 * mean, 1, mean)
    # Of the churn: (2/2) Σ difference · input = 0.5·(0, 1) + 1.5·(1, 1) = (1.5, 2).
    np.testing.assert_allclose(grads["w"], [[-2 + 10 * 1.5], [10 * 2.0]], rtol=1e-6)
    np.testing.assert_array_equal(aux.state.previous["w"], moved["w"])
    assert int(aux.state.calls) == 2 and float(aux.state.coefficient) == 10


def test_the_coefficient_follows_the_loss():
    """β = 0.1 over a window of 2, from the third call."""
    losses, moves = [4.0, -2.0, 6.0, 1.0], [0.0, 1.0, 2.0, 0.5]
    churn = reduce_churn(
        lambda p, value: value + 0 * p["w"].sum(), linear, target=0.1, warmup=3, window=2
    )
    call = jit(churn.loss)
    state, w, found = churn.init(W), W, []
    for value, move in zip(losses, moves, strict=True):
        w = {"w": w["w"] + jnp.array([[0.0], [move]])}  # outputs move by `move`
        _, aux = call(w, state, OTHER, jnp.float32(value))
        state = aux.state
        found.append(float(state.coefficient))
    third, fourth = 0.1 * (2 + 6) / (1 + 4), 0.1 * (6 + 1) / (4 + 0.25)
    np.testing.assert_allclose(found, [50, 50, third, fourth], rtol=1e-6)


def test_lanes_with_different_numbers_are_single_runs():
    def run(coefficient, target):
        churn = reduce_churn(
            loss, linear, coefficient=coefficient, target=target, warmup=2, window=3
        )

        def step(carry, _):
            params, state = carry
            (_, aux), grads = jax.value_and_grad(churn.loss, has_aux=True)(
                params, state, OTHER, X, Y
            )
            return (jax.tree.map(lambda w, g: w - 0.1 * g, params, grads), aux.state), aux.churn

        (params, _), churns = jax.lax.scan(step, (W, churn.init(W)), length=4)
        return params["w"], churns

    numbers = jnp.array([0.5, 0.1]), jnp.array([0.1, 1.0])
    together, alone = jit(lambda *n: (jax.vmap(run)(*n), [run(0.5, 0.1), run(0.1, 1.0)]))(*numbers)
    for i, each in enumerate(alone):
        jax.tree.map(
            lambda a, b, i=i: np.testing.assert_allclose(a[i], b, rtol=1e-5), together, each
        )
    assert np.ptp(together[1][:, -1]) > 0


def test_a_coefficient_of_0_changes_nothing_and_aux_comes_along():
    churn = reduce_churn(
        lambda p, x, y: (loss(p, x, y), "aux"), linear, coefficient=0.0, target=None, has_aux=True
    )
    state = churn.init({"w": W["w"] + 1})._replace(calls=jnp.int32(5))
    (value, aux), grads = jax.value_and_grad(churn.loss, has_aux=True)(W, state, OTHER, X, Y)
    assert aux.aux == "aux" and aux.churn > 0
    plain = jax.value_and_grad(loss)(W, X, Y)
    jax.tree.map(np.testing.assert_array_equal, (value, grads), plain)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_the_state_keeps_its_dtypes(dtype):
    params = jax.tree.map(lambda w: w.astype(dtype), W)
    churn = reduce_churn(loss, linear)
    state = jax.eval_shape(churn.init, params)
    args = [x.astype(dtype) for x in (OTHER, X, Y)]
    total, aux = jax.eval_shape(churn.loss, params, state, *args)
    assert aux.state == state and total.dtype == dtype
    assert not any(leaf.weak_type for leaf in jax.tree.leaves(aux.state))


@given(st.lists(st.floats(-3, 3, width=32), min_size=2, max_size=6))
def test_the_mean_square_of_a_tree_is_that_of_all_entries(values):
    old = np.zeros(len(values), np.float32)
    tree = {"a": jnp.array(values[:1]), "b": jnp.array(values[1:])}
    zeros = jax.tree.map(jnp.zeros_like, tree)
    expected = np.mean((np.array(values) - old) ** 2)
    np.testing.assert_allclose(mean_square(tree, zeros), expected, rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 0}, "window must be at least 1, got 0"),
        ({"coefficient": -1}, "coefficient must be at least 0, got -1"),
        ({"target": float("nan")}, "target must be at least 0, got nan"),
        ({"warmup": -2}, "warmup must be at least 0, got -2"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        reduce_churn(loss, linear, **options)
