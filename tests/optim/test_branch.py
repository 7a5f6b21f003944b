"""A reset costs nothing on the steps that have none, under `vmap` too."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.optim import CBP, CPR, ReDo, ReGraMa, ShrinkAndPerturb, attach_reset_method
from continual_learning.optim.branch import when

# Everything here compiles far longer than it runs.
jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


class Calls:
    """Counts what a compiled program really executes; a callback under vmap runs once a lane."""

    def __init__(self):
        self.seen = []

    def __call__(self, x):
        jax.debug.callback(lambda x: self.seen.append(np.array(x)), x)

    def taken(self):
        jax.effects_barrier()
        seen, self.seen = self.seen, []
        return seen


@pytest.fixture
def calls():
    return Calls()


def add(carry, args):
    return {"x": carry["x"] + args, "n": carry["n"] + 1}


def carries(*shape):
    x = jnp.arange(float(np.prod(shape))).reshape(shape)
    return {"x": x, "n": jnp.zeros(shape, jnp.int32)}


def assert_equal(actual, expected):
    jax.tree.map(np.testing.assert_array_equal, actual, expected)


@pytest.mark.parametrize("due", [False, True])
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_equals_cond_without_vmap(due, wrap):
    carry = carries()
    result = wrap(lambda due, carry, args: when(due, add, carry, args))(due, carry, 2.0)
    assert_equal(result, jax.lax.cond(due, add, lambda c, _: c, carry, 2.0))
    assert jax.tree.map(jax.typeof, result) == jax.tree.map(jax.typeof, carry)


def test_only_lanes_that_are_due_change():
    due = np.array([True, False, True, False])
    carry, args = carries(4), np.arange(4.0) + 10
    result = jit(jax.vmap(lambda d, c, a: when(d, add, c, a)))(due, carry, args)
    np.testing.assert_array_equal(result["x"], np.where(due, carry["x"] + args, carry["x"]))
    np.testing.assert_array_equal(result["n"], due)


def test_lanes_that_are_not_due_are_safe_from_what_is_not_finite():
    def divide(carry, args):
        return carry / args

    result = jax.vmap(lambda d, c, a: when(d, divide, c, a))(
        np.array([True, False]), jnp.ones(2), np.array([2.0, 0.0])
    )
    np.testing.assert_array_equal(result, [0.5, 1.0])


@pytest.mark.parametrize("nested", [False, True])
def test_nothing_runs_while_no_lane_is_due(calls, nested):
    def counted(carry, args):
        calls(args)
        return add(carry, args)

    def steps(due, carry, args):
        def step(carry, due):
            carry = when(due, counted, carry, args)
            return carry, carry["n"]

        return jax.lax.scan(step, carry, due)

    # [lanes, steps]: lanes are due apart, together and not at all
    due = np.array([[0, 1, 0, 0, 1, 0], [0, 0, 0, 0, 1, 0], [0, 0, 0, 1, 0, 0]], bool)
    shape, run = (3,), jax.vmap(steps)
    if nested:
        shape, run = (3, 2), jax.vmap(run, in_axes=(1, 1, 1), out_axes=1)
        due = np.stack([due, np.zeros_like(due)], axis=1)
    args = np.arange(float(np.prod(shape))).reshape(shape)
    result, history = jit(run)(due, carries(*shape), args)

    number = due.sum(-1)
    np.testing.assert_array_equal(result["n"], number)
    np.testing.assert_array_equal(result["x"], carries(*shape)["x"] + args * number)
    np.testing.assert_array_equal(history, due.cumsum(-1))
    steps_with_any = due.reshape(-1, 6).any(0).sum()
    assert len(calls.taken()) == steps_with_any * np.prod(shape)


def test_a_common_predicate_runs_for_all_lanes_or_none(calls):
    def counted(carry, args):
        calls(carry["x"])
        return add(carry, args)

    run = jit(jax.vmap(lambda d, c, a: when(d, counted, c, a), in_axes=(None, 0, None)))
    assert_equal(run(False, carries(3), 2.0), carries(3))
    assert calls.taken() == []
    result = run(True, carries(3), 2.0)
    np.testing.assert_array_equal(result["x"], carries(3)["x"] + 2)
    assert sorted(calls.taken()) == [0, 1, 2]


def test_a_common_predicate_needs_no_select():
    def one(d, c, a):
        return when(d, add, c, a)

    common = jax.make_jaxpr(jax.vmap(one, in_axes=(None, 0, 0)))(True, carries(3), jnp.ones(3))
    own = jax.make_jaxpr(jax.vmap(one))(np.ones(3, bool), carries(3), jnp.ones(3))
    assert "select_n" not in str(common)
    assert "select_n" in str(own)
    for jaxpr in (common, own):
        assert "cond" in primitives(jaxpr.jaxpr)


def test_a_carry_that_all_lanes_share_becomes_one_per_lane():
    due = np.array([False, True, False])
    run = jit(jax.vmap(lambda d, c, a: when(d, add, c, a), in_axes=(0, None, None)))
    result = run(due, {"x": jnp.array(1.0), "n": jnp.array(5)}, 2.0)
    np.testing.assert_array_equal(result["x"], [1, 3, 1])
    np.testing.assert_array_equal(result["n"], [5, 6, 5])


@pytest.mark.parametrize("due", [np.array([False, True]), True], ids=["own", "common"])
def test_some_leaves_of_the_carry_may_be_shared(due):
    axes = (0 if np.ndim(due) else None, {"x": 1, "n": None}, 0)
    run = jit(jax.vmap(lambda d, c, a: when(d, add, c, a), in_axes=axes))
    x = np.arange(6.0).reshape(3, 2)
    result = run(due, {"x": x, "n": jnp.array(5)}, np.array([10.0, 20.0]))
    expected = np.where(np.broadcast_to(due, 2)[:, None], x.T + np.array([[10], [20]]), x.T)
    np.testing.assert_array_equal(result["x"], expected)
    np.testing.assert_array_equal(result["n"], 5 + np.broadcast_to(due, 2))


@pytest.mark.parametrize("axes", [(0, None), (None, 0)], ids=["outer", "inner"])
def test_a_predicate_of_one_of_two_vmaps_stays_a_branch(calls, axes):
    outer, inner = axes

    def counted(carry, args):
        calls(carry["x"])
        return add(carry, args)

    def one(d, c):
        return when(d, counted, c, 1.0)

    run = jit(jax.vmap(jax.vmap(one, in_axes=(inner, 0)), in_axes=(outer, 0)))
    none, some = np.zeros(2, bool), np.array([False, True])
    assert_equal(run(none, carries(2, 2)), carries(2, 2))
    assert calls.taken() == []
    expected = np.broadcast_to(some[:, None] if outer == 0 else some[None], (2, 2))
    np.testing.assert_array_equal(run(some, carries(2, 2))["n"], expected)
    assert len(calls.taken()) == 4


def test_three_nested_vmaps():
    due = np.arange(8).reshape(2, 2, 2) % 3 == 0
    run = functools.reduce(lambda f, _: jax.vmap(f), range(3), lambda d, c: when(d, add, c, 1.0))
    jaxpr = jax.make_jaxpr(run)(due, carries(2, 2, 2))
    assert "cond" in primitives(jaxpr.jaxpr)
    np.testing.assert_array_equal(jit(run)(due, carries(2, 2, 2))["n"], due)


# The whole optimizer -------------------------------------------------------------------------

SEEDS, STEPS, HIDDEN = 3, 10, 2


def network(seed):
    rng = np.random.default_rng(seed)
    return {
        f"layer_{i}": {
            "kernel": np.float32(rng.normal(size=(a, b))),
            "bias": np.float32(rng.normal(size=b)),
        }
        for i, (a, b) in enumerate(itertools.pairwise((4, 6, 5, 2)))
    }


def stack(*trees):
    return jax.tree.map(lambda *x: np.stack(x), *trees)


def features():
    rng = np.random.default_rng(9)
    return {
        f"layer_{i}/kernel": np.float32(rng.uniform(0.5, 1, (3, n))) for i, n in enumerate((6, 5))
    }


def optimizer(method):
    return attach_reset_method(tx=optax.sgd(0.01), reset_method=method, histogram=False)


def study(method):
    """A training run of `SEEDS` lanes; states come in from outside, as those of a restored one."""
    tx = optimizer(method)
    params = stack(*map(network, range(SEEDS)))

    def steps(params, state):
        def step(carry, _):
            params, state = carry
            updates, state = tx.update(params, state, params, features=features())
            return (optax.apply_updates(params, updates), state), None

        return jax.lax.scan(step, (params, state), length=STEPS)[0]

    return jit(jax.vmap(steps)), params, jax.vmap(tx.init)(params)


def train(method):
    run, params, state = study(method)
    return run(params, state)


def drawing(calls):
    """An initializer that says when it draws."""

    def init(key, shape, dtype):
        calls(jax.random.key_data(key))
        return jnp.ones(shape, dtype)

    return init


@pytest.mark.parametrize(
    ("make", "kernels"),
    [
        (functools.partial(CPR, every=4), HIDDEN),
        (functools.partial(ReDo, threshold=0.1, every=4), HIDDEN),
        (functools.partial(ReGraMa, threshold=0.1, every=4), HIDDEN),
        (functools.partial(ShrinkAndPerturb, shrink=0.1, perturb=0.1, every=4), HIDDEN + 1),
    ],
    ids=["CPR", "ReDo", "ReGraMa", "ShrinkAndPerturb"],
)
def test_fresh_weights_are_drawn_on_due_steps_alone(calls, make, kernels):
    _, state = train(make(init=drawing(calls)))
    np.testing.assert_array_equal(state.log.resets, 2)
    keys = calls.taken()
    assert len(keys) == 2 * kernels * SEEDS
    assert len({tuple(key) for key in keys}) == len(keys)


def test_continual_backprop_draws_only_when_a_unit_is_replaced(calls):
    _, state = train(CBP(replacement_rate=0.03, maturity=2, init=drawing(calls)))
    resets = int(state.log.resets[0, 0])
    assert 1 <= resets < STEPS / 2
    # Ages and eligibility are the same in all lanes, whatever their weights.
    np.testing.assert_array_equal(state.log.resets, resets)
    assert len(calls.taken()) == resets * HIDDEN * SEEDS


def test_nothing_is_drawn_before_the_first_reset(calls):
    _, state = train(CPR(every=STEPS, init=drawing(calls)))
    np.testing.assert_array_equal(state.log.resets, 0)
    assert calls.taken() == []


def test_lanes_that_are_due_apart_are_reset_apart(calls):
    run, params, state = study(CPR(max_reset=0.5, every=4, init=drawing(calls)))
    together, _ = run(params, state)
    assert len(calls.taken()) == 2 * HIDDEN * SEEDS  # in steps 4 and 8

    # Counters that show 4 and 8 in steps 4 and 8, 3 and 7, 2 and 6.
    apart, state = run(params, state._replace(calls=jnp.arange(SEEDS, dtype=jnp.int32)))
    np.testing.assert_array_equal(state.log.resets, 2)
    assert len(calls.taken()) == 6 * HIDDEN * SEEDS
    for layer in ("layer_0", "layer_1"):
        kernels, expected = apart[layer]["kernel"], together[layer]["kernel"]
        np.testing.assert_array_equal(kernels[0], expected[0])
        assert not np.allclose(kernels[1], expected[1])


def subjaxprs(eqn):
    for value in jax.tree.leaves(list(eqn.params.values()), is_leaf=lambda v: hasattr(v, "eqns")):
        inner = getattr(value, "jaxpr", value)
        if hasattr(inner, "eqns"):
            yield inner


def primitives(jaxpr, enter=lambda eqn: True):
    """Names of all primitives, also of functions within, as far as `enter` says."""
    found = set()
    for eqn in jaxpr.eqns:
        found.add(eqn.primitive.name)
        if enter(eqn):
            for inner in subjaxprs(eqn):
                found |= primitives(inner, enter)
    return found


@pytest.mark.parametrize("vmaps", [0, 1, 2])
@pytest.mark.parametrize(
    "method",
    [
        CPR(),
        CPR(reset_bias=True, reset_moments=True, init="as_initialized"),
        CBP(),
        ReDo(threshold=0.1, every=4),
        ReGraMa(threshold=0.1, every=4, max_reset_fraction=0.5),
        ShrinkAndPerturb(shrink=0.1, perturb=0.1, every=4),
    ],
    ids=lambda method: type(method).__name__,
)
def test_random_bits_are_drawn_inside_branches_alone(method, vmaps):
    tx = optimizer(method)
    params = network(0)

    def update(grads, state, params):
        return tx.update(grads, state, params, features=features())

    arguments = (params, jax.eval_shape(tx.init, params), params)
    for _ in range(vmaps):
        update = jax.vmap(update)
        arguments = jax.tree.map(lambda x: jax.ShapeDtypeStruct((2, *x.shape), x.dtype), arguments)
    jaxpr = jax.make_jaxpr(update)(*arguments).jaxpr
    everywhere = primitives(jaxpr)
    outside = primitives(jaxpr, enter=lambda eqn: eqn.primitive.name != "cond")
    assert {"cond", "random_bits"} <= everywhere
    assert "cond" in outside
    assert not {"random_bits", "threefry2x32", "erf_inv", "while"} & outside
