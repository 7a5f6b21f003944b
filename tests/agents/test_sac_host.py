"""SAC on the host: equal to the pure one in strict order, staleness, evaluation, exact resume.

One program for most of it, that of `test_sac.py` in an environment of the host with continuous
actions: a chunk is 6 steps of 2 environments, a task 2 chunks.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.agents.common.host_statistics import Tally
from continual_learning.agents.sac.config import SACConfig
from continual_learning.agents.sac.host import sac_host
from continual_learning.agents.sac.train import sac
from continual_learning.envs.catalog import OnDevice, OnHost
from continual_learning.envs.draws import Values
from continual_learning.envs.host import HostTimestep
from continual_learning.envs.streams import TaskStream
from continual_learning.networks import MLP, TanhGaussian
from continual_learning.optim import NoReset, attach_reset_method
from continual_learning.studies.runner import Lanes
from tests.agents import host_probes, probes
from tests.agents.running import Run, equal, through_numpy
from tests.agents.test_sac import CONFIG, optimizer
from tests.envs.host.toys import gone

POLICY, CRITIC = MLP((8,), 2, "relu", "he_uniform"), MLP((8,), 1, "relu", "he_uniform")
OPTIMIZERS = {name: optimizer(name) for name in ("policy", "critic")}
ENVS, LANES = 2, 2


def trainer(staleness=0, **options):
    return sac_host(
        POLICY,
        CRITIC,
        OnHost(host_probes.CountingStream(), 1, "refuse"),
        OPTIMIZERS,
        SACConfig(environments=ENVS, staleness=staleness, **CONFIG | options),
        tasks=2,
    )


def program_of(trainer, lanes):
    return trainer.program(range(lanes), Lanes(range(lanes)).keys(), {})


class HostRun:
    """All chunks of a host trainer: `states` before each and after the last, `rows` of each."""

    def __init__(self, trainer, lanes):
        self.trainer, self.program = trainer, program_of(trainer, lanes)
        state = self.program.init()
        self.states, self.rows = [through_numpy(state)], []
        for _ in range(trainer.chunks):
            state, rows = self.program.chunk(state)
            self.states.append(through_numpy(state))
            self.rows.append(rows)

    def column(self, name, lane=0):
        return np.concatenate([rows[name][lane] for rows in self.rows])


@pytest.fixture(scope="module")
def strict():
    run = HostRun(trainer(eval_every=6, eval_episodes=3), LANES)
    # Counted here: a large worker of the tests drops its programs after any test.
    calls = run.program._calls
    used = (calls.act, calls.learn, calls.store, calls.change, calls.describe)
    run.programs = [call._cache_size() for call in used]
    yield run
    pids = run.program._pool.pids + run.program._evaluation._pool.pids
    run.program.close()
    assert len(pids) == 2 and gone(pids)


@pytest.fixture(scope="module")
def pure():
    env = probes.Counting()
    stream = TaskStream(env, {"bonus": Values(0, 100), "length": Values(7, 1000)})
    config = SACConfig(environments=ENVS, **CONFIG | {"eval_every": 0})
    problem = OnDevice(stream, 7, "first")
    return Run(sac(POLICY, CRITIC, problem, OPTIMIZERS, config, tasks=2), LANES)


def test_strict_order_is_the_pure_program(strict, pure):
    """Every column that both have, and what the replay holds, over a task change."""
    shared = set(pure.rows[0]) - {"bonus", "length", "big"}
    assert set(strict.rows[0]) > shared
    for lane in range(LANES):
        for name in sorted(shared):
            ours, theirs = strict.column(name, lane), pure.column(name, lane)
            assert ours.dtype == theirs.dtype, name
            np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=1e-5, err_msg=name)
    one, other = strict.states[-1], pure.states[-1]
    equal((one.replay.added, one.replay.cleared), (other.replay.added, other.replay.cleared))
    for name in ("observation", "reward", "terminated", "reached"):
        equal(getattr(one.replay.rows, name), getattr(other.replay.rows, name))


def test_metrics_are_those_at_the_end_of_episodes(strict):
    """Step k pays k (+ 100): more than 6 at the end of both tasks, after 7 steps."""
    ends = [np.nan, np.nan, 1, np.nan] * 2
    np.testing.assert_array_equal(strict.column("success"), ends)
    np.testing.assert_array_equal(strict.column("count"), np.multiply(ends, 7))


def test_a_lane_alone_is_that_of_two(strict):
    """Over the first task, with its resets: later one more or less can hang on a rounding."""
    alone = HostRun(trainer(eval_every=6, eval_episodes=3), 1)
    alone.program.close()
    assert alone.column("critic_1_units_reset")[3] > 0
    for name in strict.rows[0]:
        one, of_two = alone.column(name)[:4], strict.column(name)[:4]
        np.testing.assert_allclose(one, of_two, rtol=2e-4, atol=1e-5, err_msg=name)
    one, of_two = (jax.tree.leaves(run.states[2].learner) for run in (alone, strict))
    for a, b in zip(one, of_two, strict=True):
        np.testing.assert_allclose(a, b[:1], rtol=2e-4, atol=1e-5)


@pytest.fixture(scope="module")
def compiled():
    """A program whose calls are compiled before there is a worker."""
    program = program_of(trainer(eval_every=6, eval_episodes=3), LANES)
    program.compile()
    assert program.like.steps.shape == (LANES,)
    assert "_pool" not in vars(program)
    yield program
    program.close()


def test_calls_that_were_compiled_before_give_the_same(strict, compiled):
    calls = compiled._calls
    assert all(isinstance(each, jax.stages.Compiled) for each in vars(calls).values())
    state = compiled.init()
    for before, rows in zip(strict.states, strict.rows, strict=False):
        equal(through_numpy(state), before)
        state, found = compiled.chunk(state)
        equal(found, rows)


def test_what_it_needs_of_the_device(strict, compiled):
    """At least what is there between two steps."""
    held = jax.tree.leaves((strict.states[-1].learner, strict.states[-1].replay))
    least = sum(x.nbytes for x in held)
    assert least < compiled.memory() < 100 * least


def test_one_program_each(strict):
    assert strict.programs == [1] * 5


def test_evaluation(strict):
    """3 episodes of 7 steps on each task met, in the last row of each chunk."""
    none = np.nan
    for lane in range(LANES):
        of = {name: strict.column(f"eval_{name}", lane) for name in ("seen", "ends", "is_cut")}
        np.testing.assert_array_equal(of["ends"], [none, 28] * 4)
        np.testing.assert_array_equal(of["is_cut"], [none] * 5 + [728, none, 728])
        np.testing.assert_array_equal(of["seen"], [none, 28] * 2 + [none, 378] * 2)
    np.testing.assert_array_equal(strict.column("eval_seen_count"), [none, 7] * 4)
    assert strict.column("eval_is_cut_success")[-1] == 1
    steps = strict.column("evaluation_steps")
    assert steps.tolist() == [0, 21] * 2 + [0, 42] * 2 and steps.dtype == np.int32


def test_no_evaluation_repeats_episodes(strict):
    """Nor are they those of training: the tasks 0 and 1 of which stand for both."""
    entered, evaluation = [], strict.program._evaluation
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation._pool, "enter", entered.append)
        patch.setattr(
            evaluation, "_play", lambda act, params, task: evaluation._pool.enter(task) or 1 / 0
        )
        for number in range(3):
            with pytest.raises(ZeroDivisionError):
                evaluation.evaluate(None, None, 1, number)
    assert entered == [2, 4, 6]


def test_resuming_is_exact(strict):
    """In the middle of a task and of episodes."""
    state = strict.program.place(through_numpy(strict.states[1]))
    for number in (1, 2, 3):
        state, rows = strict.program.chunk(state)
        equal(rows, strict.rows[number])
    equal(state, strict.states[4])


def test_the_state_is_like_what_was_promised(strict):
    for state in (strict.program.init(), strict.states[2]):
        shapes = jax.tree.map(lambda x: (x.shape, jnp.asarray(x).dtype), state)
        assert shapes == jax.tree.map(lambda like: (like.shape, like.dtype), strict.program.like)


@pytest.mark.parametrize("staleness", [0, 1])
def test_what_actions_know(strict, staleness, monkeypatch):
    """How many of the steps before have been learned from when actions are chosen, in rows of 3.

    With staleness the workers are stepping while there is something to learn from, but for the last
    step of a row.
    """
    program, learned, known, meanwhile = strict.program, [], [], []
    act, learn = program._calls.act, program._calls.learn

    def acting(*args):
        known.append(len(learned))
        return act(*args)

    def learning(*args):
        learned.append(int(args[-1].number))
        meanwhile.append(program._pool._stepping)
        return learn(*args)

    config = dataclasses.replace(program._config, staleness=staleness)
    monkeypatch.setattr(program, "_config", config)
    monkeypatch.setattr(program._calls, "act", acting)
    monkeypatch.setattr(program._calls, "learn", learning)
    program.chunk(program.place(through_numpy(strict.states[1])))
    assert learned == [6, 7, 8, 9, 10, 11]
    assert known == ([0, 0, 1, 3, 3, 4] if staleness else [0, 1, 2, 3, 4, 5])
    assert meanwhile == ([True, True, False] * 2 if staleness else [False] * 6)


def test_names_of_columns_are_known_before_there_are_rows(strict):
    program = program_of(strict.trainer, LANES)
    assert sorted(program.columns) == sorted(strict.rows[0])


def timestep(ended, metric):
    ended = np.array(ended)
    blank = np.zeros(ended.shape, np.float32)
    return HostTimestep(
        blank[..., None],
        blank + 2,
        ended,
        ~ended & False,
        blank + 5,
        blank + 3,
        {"m": metric},
        ended & (metric == 1),
    )


def test_a_tally_counts_what_ended():
    tally = Tally(2, ["m"])
    tally.add(timestep([[True, False], [False, False]], np.array([[4.0, 9], [9, 9]])))
    tally.add(timestep([[True, True], [False, False]], np.array([[1.0, 1], [9, 9]])))
    columns = tally.columns(np.array([[1, np.nan], [np.nan, np.nan]]))
    assert columns["episodes_ended"].tolist() == [3, 0]
    np.testing.assert_array_equal(columns["m"], [2, np.nan])
    np.testing.assert_array_equal(columns["episode_return"], [5, np.nan])
    np.testing.assert_array_equal(columns["latest_return"], [1, np.nan])
    np.testing.assert_array_equal(columns["running_return"], [0, 5])
    np.testing.assert_array_equal(columns["reward"], [2, 2])
    assert "invalid_steps" not in columns
    tally = Tally(2, ["m"], invalid=True)
    tally.add(timestep([[True, True], [False, False]], np.array([[1.0, 1], [1, 9]])))
    tally.add(timestep([[True, True], [False, True]], np.array([[0.0, 1], [1, 1]])))
    assert tally.columns(np.zeros((2, 2)))["invalid_steps"].tolist() == [3, 1]


def adam(units, hyper):
    tx = optax.adam(3e-3)
    return attach_reset_method(tx=tx, reset_method=NoReset(), units=units, histogram=False)


def test_it_learns_and_a_time_limit_is_not_the_end():
    """The best action is what is seen; 1 for ever at best, cut after 2 steps: worth 5 with γ 0.8.

    Were the cut an end, it would be worth less than 2.
    """
    config = SACConfig(
        environments=4,
        vector_steps_per_task=400,
        steps_per_row=100,
        rows_per_chunk=4,
        capacity=2000,
        batch=64,
        replay_ratio=2,
        learning_starts=64,
        discount=0.8,
        tau=0.05,
        initial_alpha=1e-4,
        alpha_learning_rate=1e-12,
        log_alpha_bounds=(-12.0, 2.0),
        diagnostics=False,
    )
    policy, critic = (MLP((32, 32), outputs, "relu", "he_uniform") for outputs in (2, 1))
    made = sac_host(
        policy,
        critic,
        OnHost(host_probes.TargetStream(), 1, "refuse"),
        {"policy": adam, "critic": adam},
        config,
        tasks=1,
    )
    run = HostRun(made, 1)
    run.program.close()
    assert made.headline in run.rows[0]
    first, *_, last = run.column("latest_return")
    assert first < 1.85 and last > 1.9
    params = jax.tree.map(lambda x: x[0], run.states[-1].learner.params)
    seen = jnp.array([[-0.5], [0.5]])
    best = TanhGaussian.from_outputs(policy.apply(params["policy"], seen)).mode()
    np.testing.assert_allclose(best, seen, atol=0.15)
    read = jnp.concatenate([seen, best], axis=1)
    q = jax.vmap(critic.apply, (0, None))(params["critic"], read)
    np.testing.assert_allclose(q, np.full((2, 2, 1), 5.0), rtol=0.1)


def test_what_cannot_be():
    with pytest.raises(ValueError, match="staleness must be 0 or 1, got 2"):
        trainer(staleness=2)
    with pytest.raises(ValueError, match="capacity must be at least the 2 environments"):
        trainer(capacity=1)
