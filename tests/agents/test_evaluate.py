"""Evaluation on the tasks met so far, by hand; what SAC makes of it is tested with SAC."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from continual_learning.agents.common.evaluate import Evaluation, first_returns
from continual_learning.agents.common.tasks import Tasks
from continual_learning.envs.draws import Uniform, Values
from continual_learning.envs.episodes import Episodes
from continual_learning.envs.streams import TaskStream
from tests.agents import probes


class Lasting(probes.Counting):
    """Episodes of 1 to 6 steps, as is drawn when they begin; a step pays the action and a bonus."""

    def reset(self, key, task):
        return -jax.random.randint(key, (1,), 1, 7).astype(jnp.float32)

    def step(self, key, state, action, task):
        now = state + 1
        return now, probes.transition(now, action[0] + task["bonus"], now[0] >= 0)


def act(params, observation):
    return jnp.broadcast_to(params, (observation.shape[0], 1))


def played(length, wanted=True):
    """Returns of three episodes that pay 2 a step, how long they would last, and steps of all."""
    episodes, key, task = Episodes(Lasting(), 3, length), jax.random.key(1), {"bonus": 0.5}
    acted = []

    def counted(observation):
        jax.debug.callback(lambda: acted.append(1))
        return act(jnp.float32(1.5), observation)

    returns = jax.jit(lambda wanted: first_returns(episodes, counted, key, task, wanted))(
        jnp.array(wanted)
    )
    jax.effects_barrier()
    return np.asarray(returns), -np.asarray(episodes.begin(key, task).env[:, 0]), len(acted)


def test_every_environment_plays_its_first_episode():
    returns, lasting, steps = played(length=100)
    assert len(set(lasting)) > 1
    np.testing.assert_array_equal(returns, 2 * lasting)
    assert steps == lasting.max()  # and no longer


def test_time_limit_ends_episodes():
    returns, lasting, steps = played(length=2)
    np.testing.assert_array_equal(returns, 2 * np.minimum(lasting, 2))
    assert steps == min(lasting.max(), 2)


def test_nothing_is_played_if_it_is_not_wanted():
    returns, _, steps = played(length=100, wanted=False)
    assert np.isnan(returns).all() and steps == 0


def evaluated(due=True, now=0, changes=None, tasks=3, length=7, lanes=None):
    env = Lasting() if changes is None else probes.Counting()
    stream = TaskStream(env, changes or {"bonus": Uniform(0, 1)})
    evaluation = Evaluation(Tasks(Episodes(env, 2, length), stream), tasks, 4)

    def of_seed(due, now, key):
        return evaluation.if_due(due, act, jnp.zeros(()), key, jnp.int32(8), now)

    if lanes is None:
        return jax.jit(of_seed)(jnp.array(due), jnp.int32(now), jax.random.key(0))
    keys = jax.vmap(jax.random.key)(jnp.zeros(len(lanes), jnp.int32))
    return jax.jit(jax.vmap(of_seed))(*(jnp.array(x) for x in zip(*lanes, strict=True)), keys)


CYCLE = {"bonus": Values(0, 100), "length": Values(3, 3, 2, 3)}
"""Returns of 6, 306, 3, 306: three distinct tasks of four."""


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (0, {"seen": 6, "task_0": 6, "task_1": np.nan, "task_2": np.nan}),
        (1, {"seen": 156, "task_0": 6, "task_1": 306, "task_2": np.nan}),
        (3, {"seen": 105, "task_0": 6, "task_1": 306, "task_2": 3}),
    ],
)
def test_tasks_met_so_far(now, expected):
    found = evaluated(now=now, changes=CYCLE, tasks=4)
    np.testing.assert_equal(
        {name.removeprefix("eval_"): float(x) for name, x in found.items()}, expected
    )


def test_lanes_at_different_places():
    lanes = [(True, 0), (False, 1), (True, 2)]
    found = evaluated(changes=CYCLE, lanes=lanes)
    np.testing.assert_array_equal(found["eval_seen"], [6, np.nan, 105])
    np.testing.assert_array_equal(found["eval_task_1"], [np.nan, np.nan, 306])
    for lane, (due, now) in enumerate(lanes):
        alone = evaluated(due, now, changes=CYCLE)
        np.testing.assert_equal({n: x[lane] for n, x in found.items()}, alone)


def test_a_drawn_task_is_the_one_of_training():
    """Returns are steps times the bonus that the seed's stream draws."""
    stream = TaskStream(Lasting(), {"bonus": Uniform(0, 1)})
    tasks = Tasks(Episodes(Lasting(), 2, 1), stream)
    drawn = [tasks.task(jax.random.key(0), jnp.int32(i))["bonus"] for i in range(3)]
    found = evaluated(now=2, length=1)
    np.testing.assert_allclose([found[f"eval_task_{i}"] for i in range(3)], drawn, rtol=1e-6)
    np.testing.assert_allclose(found["eval_seen"], np.mean(drawn), rtol=1e-6)
