"""Our games beside what was recorded of the official ones."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.envs.minatar import GAMES, seaquest

# Everything here compiles far longer than it runs.
jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


@functools.cache
def stepper(name, ramping):
    """Steps many states at once, and what is seen of them."""
    game = GAMES[name]

    def step(draws, state, action):
        state, reward, over = game.step(draws, state, action, ramping)
        return state, game.observe(state), reward, over

    return jit(jax.vmap(step))


@functools.cache
def roller(name, ramping):
    """Plays on from the first state, in a row; starts anew from what was recorded."""
    game = GAMES[name]

    def step(state, row):
        begins, start, draws, action = row
        state = jax.tree.map(lambda new, old: jnp.where(begins, new, old), start, state)
        state, reward, over = game.step(draws, state, action, ramping)
        return state, (game.observe(state), reward, over)

    return jit(
        lambda record: jax.lax.scan(
            step,
            jax.tree.map(lambda x: x[0], record["before"]),
            (record["first"], record["before"], record["draws"], record["action"]),
        )[1]
    )


def canonical(name, state):
    """The state without what makes no difference: what is not there has no place."""
    state = jax.tree.map(np.asarray, state)
    if name == "asterix":
        there = state.present
        return state._replace(
            right=state.right & there, gold=state.gold & there, column=state.column * there
        )
    if name == "seaquest":
        taken = ((state.fish | state.subs) != 0).any(axis=2)
        there = state.diver_x != seaquest.AWAY
        order = np.argsort(~there, axis=1, kind="stable")
        x, y, right = (
            np.take_along_axis(part, order, axis=1)
            for part in (state.diver_x, state.diver_y * there, state.diver_right & there)
        )
        return state._replace(
            heading=state.heading & taken, diver_x=x, diver_y=y, diver_right=right
        )
    return state


def assert_equal(name, record, ramping):
    """Every step on its own from the recorded state, and all in a row from the first ones."""
    record = {key: jax.tree.map(jnp.asarray, value) for key, value in record.items()}
    after, *alone = stepper(name, ramping)(record["draws"], record["before"], record["action"])
    ours, theirs = canonical(name, after), canonical(name, record["after"])
    for field in ours._fields:
        np.testing.assert_array_equal(
            getattr(ours, field), getattr(theirs, field), err_msg=f"{name}: {field}"
        )
    for outcome in (alone, roller(name, ramping)(record)):
        for what, ours in zip(("observation", "reward", "over"), outcome, strict=True):
            np.testing.assert_array_equal(ours, record[what], err_msg=f"{name}: {what}")
