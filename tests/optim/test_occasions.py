"""Methods that act when the task changes, or every so many steps."""

import dataclasses
import functools

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import strategies as st

from continual_learning.optim import Amount, attach_reset_method, reset_method
from continual_learning.optim.occasions import Occasional
from tests.optim.rollouts import jit, network, types

SIZES = (2, 3, 2)


@reset_method
class Renewal(Occasional):
    """Resets all units."""

    def amount(self, graph, state, step):
        return Amount(jnp.ones(graph.shape), jnp.ones(graph.shape))


def optimizer(every=None, **options):
    return attach_reset_method(tx=optax.sgd(0.0), reset_method=Renewal(every, **options))


@functools.cache
def compiled(every=None):
    """(tasks [steps], state or None) -> number of resets after every step, and the state."""
    tx, params = optimizer(every), network(sizes=SIZES)

    def run(tasks, state):
        def step(state, task):
            _, state = tx.update(params, state, params, task=task)
            return state, state.log.resets[0]

        state, resets = jax.lax.scan(step, state, tasks)
        return resets, state

    return jit(run), tx.init(params)


def acted(tasks, every=None, state=None):
    """Whether each step acted, and the state."""
    run, fresh = compiled(every)
    state = fresh if state is None else state
    before = int(state.log.resets[0])
    resets, after = run(np.asarray(tasks, np.int32), state)
    assert types(after) == types(state)
    return np.diff(resets, prepend=before).astype(bool).tolist(), after


def test_it_acts_once_at_each_change_in_the_first_call_of_the_new_task():
    found, _ = acted([0, 0, 1, 1, 1, 2, 2, 2])
    assert found == [False, False, True, False, False, True, False, False]


def test_a_task_that_comes_back_and_one_that_is_left_out_are_changes():
    found, _ = acted([0, 1, 0, 0, 5, 5, 4, 4])
    assert found == [False, True, True, False, True, False, True, False]


def test_a_state_that_is_new_in_a_later_task_acts_at_once():
    found, _ = acted([3, 3, 3, 3, 4, 4, 4, 4])
    assert found == [True, False, False, False, True, False, False, False]


def test_a_state_goes_on_where_it_was():
    _, state = acted([0, 0, 0, 0, 1, 1, 1, 1])
    same, _ = acted([1] * 8, state=state)
    other, _ = acted([2] * 8, state=state)
    assert same == [False] * 8
    assert other == [True] + [False] * 7


@hypothesis.given(st.lists(st.integers(0, 3), min_size=8, max_size=8))
def test_it_acts_exactly_where_the_number_differs_from_the_last_one(tasks):
    found, state = acted(tasks)
    assert found == [a != b for a, b in zip([0, *tasks], tasks, strict=False)]
    assert state.method.task == tasks[-1]


def test_every_acts_on_its_schedule_and_needs_no_task():
    found, _ = acted([0, 1, 2, 3, 3, 3, 3, 3], every=3)
    assert found == [False, False, False, True, False, False, True, False]
    tx, params = optimizer(every=1), network(sizes=SIZES)
    state = tx.init(params)
    for resets in (0, 1):
        _, state = jit(tx.update)(params, state, params)
        np.testing.assert_array_equal(state.log.resets, resets)
    assert Renewal(every=1).requires == ()
    assert Renewal().requires == ("task",)


def test_a_missing_task_is_named():
    tx, params = optimizer(), network(sizes=SIZES)
    state = tx.init(params)
    with pytest.raises(
        ValueError, match=r"Renewal acts when the task changes .* task=n\)"
    ) as error:
        tx.update(params, state, params)
    assert "Renewal(every=n)" in str(error.value)


@pytest.mark.parametrize(
    "task",
    [1.0, True, np.ones(1, np.int32), jnp.float32(1), np.bool_(True)],
    ids=["float", "bool", "vector", "array", "bool_"],
)
def test_a_task_that_is_no_integer_is_refused(task):
    tx, params = optimizer(), network(sizes=SIZES)
    with pytest.raises(ValueError, match="Renewal: `task` must be an integer"):
        tx.update(params, tx.init(params), params, task=task)


@pytest.mark.parametrize("task", [1, np.int64(1), jnp.uint8(1)], ids=["int", "int64", "uint8"])
def test_any_integer_is_a_task_and_changes_no_types(task):
    tx, params = optimizer(), network(sizes=SIZES)
    state = tx.init(params)
    after = jax.eval_shape(lambda task: tx.update(params, state, params, task=task)[1], task)
    assert jax.tree.map(lambda x: (x.shape, x.dtype, x.weak_type), after) == jax.tree.map(
        lambda x: (x.shape, x.dtype, jax.typeof(x).weak_type), state
    )


def test_bad_schedules_are_refused():
    for every in (0, -1, 0.5):
        with pytest.raises(ValueError, match="Renewal: every must be at least 1"):
            Renewal(every=every)


# Many at once --------------------------------------------------------------------------------

TASKS = np.array([[0, 0, 1, 1, 1, 2], [0, 0, 0, 0, 1, 1], [2, 2, 2, 2, 2, 2]], np.int32)
ACTS = np.array([[0, 0, 1, 0, 0, 1], [0, 0, 0, 0, 1, 0], [1, 0, 0, 0, 0, 0]], bool)


def test_lanes_in_tasks_of_their_own_act_apart_and_only_then_is_anything_drawn():
    seen = []

    def draw(key, shape, dtype):
        jax.debug.callback(lambda key: seen.append(np.array(key)), jax.random.key_data(key))
        return jnp.ones(shape, dtype)

    tx = optimizer(init=draw)
    params = jax.tree.map(lambda *x: np.stack(x), *[network(s, sizes=SIZES) for s in range(3)])

    def run(params, state, tasks):
        def step(state, task):
            updates, state = tx.update(params, state, params, task=task)
            moved = jnp.any(updates["layer_0"]["kernel"] != 0)
            return state, moved

        return jax.lax.scan(step, state, tasks)

    state, moved = jit(jax.vmap(run))(params, jax.vmap(tx.init)(params), TASKS)
    jax.effects_barrier()
    np.testing.assert_array_equal(moved, ACTS)
    np.testing.assert_array_equal(state.log.resets[:, 0], ACTS.sum(1))
    # A branch that any lane takes is computed for all lanes; each draws one kernel.
    assert len(seen) == ACTS.any(0).sum() * len(TASKS)
    assert len({tuple(key) for key in seen}) == len(seen)


@pytest.mark.parametrize("vmaps", [0, 1, 2])
@pytest.mark.parametrize("every", [None, 4])
def test_random_bits_are_drawn_inside_branches_alone(every, vmaps):
    tx, params = optimizer(every), network(sizes=SIZES)

    def update(grads, state, params, task):
        return tx.update(grads, state, params, task=task)

    arguments = (params, jax.eval_shape(tx.init, params), params, jnp.int32(0))
    for _ in range(vmaps):
        update = jax.vmap(update)
        arguments = jax.tree.map(lambda x: jax.ShapeDtypeStruct((2, *x.shape), x.dtype), arguments)
    text = str(jax.make_jaxpr(update)(*arguments))
    top = jax.make_jaxpr(update)(*arguments).jaxpr
    inside = [str(eqn) for eqn in equations(top) if eqn.primitive.name == "cond"]
    assert "random_bits" in "".join(inside)
    assert text.count("random_bits") == sum(each.count("random_bits") for each in inside)


def equations(jaxpr):
    """All equations that no conditional holds."""
    for eqn in jaxpr.eqns:
        yield eqn
        if eqn.primitive.name != "cond":
            for value in jax.tree.leaves(
                list(eqn.params.values()), is_leaf=lambda v: hasattr(v, "eqns")
            ):
                inner = getattr(value, "jaxpr", value)
                if hasattr(inner, "eqns"):
                    yield from equations(inner)


def test_the_schedule_may_differ_between_lanes():
    params = network(sizes=SIZES)

    def resets(every):
        method = dataclasses.replace(Renewal(every=1), every=every)
        tx = attach_reset_method(tx=optax.sgd(0.0), reset_method=method)

        def step(state, _):
            return tx.update(params, state, params)[1], None

        return jax.lax.scan(step, tx.init(params), length=7)[0].log.resets[0]

    np.testing.assert_array_equal(jit(jax.vmap(resets))(np.array([1, 2, 3, 100])), [6, 3, 2, 0])
