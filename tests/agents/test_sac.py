"""The program of SAC: rows, replay, task changes, one compilation, resuming, lanes, reset methods.

One program for most of it: two seeds count steps (see `CountingBits`) for two tasks, the policy
with CPR, the critics with ReDo. A chunk is 6 steps of 2 environments, and the first chunk of a task
has too few transitions to learn from: what it shows is what the task change did. The second one is
followed by an evaluation.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.agents.sac.config import SACConfig
from continual_learning.agents.sac.train import sac
from continual_learning.envs.catalog import OnDevice
from continual_learning.envs.draws import Values
from continual_learning.envs.streams import TaskStream
from continual_learning.networks import MLP
from continual_learning.optim import NoReset, attach_reset_method
from continual_learning.studies import methods
from continual_learning.studies.experiment import MethodSpec
from continual_learning.studies.store.store import Store
from tests.agents import probes
from tests.agents.running import Run, equal, shapes, through_numpy

ENVS, LANES, CAPACITY = 2, 2, 15
RESETS = {
    "policy": MethodSpec(clip=0.5, reset="cpr", options={"every": 2, "max_reset": 0.3}),
    "critic": MethodSpec(clip=0.5, reset="redo", options={"every": 2, "threshold": 0.5}),
}
CONFIG = {
    "vector_steps_per_task": 12,
    "steps_per_row": 3,
    "rows_per_chunk": 2,
    "capacity": CAPACITY,
    "batch": 8,
    "replay_ratio": 2,
    "learning_starts": 14,
    "tau": 0.5,
    "alpha_learning_rate": 0.01,
    "probe": 16,
    "eval_every": 12,
    "eval_episodes": 3,
}


def optimizer(name):
    def make(units, hyper):
        return methods.transformation(RESETS[name], units, init="he_uniform", hyper=hyper)

    return make


def trainer(
    env=None,
    policy=None,
    critic=None,
    optimizers=None,
    envs=ENVS,
    tasks=2,
    published_every=0,
    **options,
):
    """Task 0: episodes terminate after 7 steps. Task 1: they are truncated then."""
    env = env or probes.CountingBits()
    stream = TaskStream(env, {"bonus": Values(0, 100), "length": Values(7, 1000)})
    return sac(
        policy or MLP((8,), 2, "relu", "he_uniform"),
        critic or MLP((8,), 2, "relu", "he_uniform"),
        OnDevice(stream, 7, "first"),
        optimizers or {name: optimizer(name) for name in RESETS},
        SACConfig(environments=envs, **CONFIG | options),
        tasks=tasks,
        published_every=published_every,
    )


@pytest.fixture(scope="module")
def run():
    return Run(trainer(), LANES)


def test_one_program(run):
    assert (run.trainer.chunks, run.programs) == (4, 1)


def test_steps_tasks_and_their_parameters(run):
    assert run.column("step").tolist() == [6, 12, 18, 24, 30, 36, 42, 48]
    assert run.column("step").dtype == np.int32
    assert run.column("task").tolist() == [0] * 4 + [1] * 4
    assert run.column("bonus").tolist() == [0] * 4 + [100] * 4


def test_episodes(run):
    """Step k of an episode pays k + bonus; it ends after step 7, in rows of 3 steps."""
    none = np.nan
    assert run.column("episodes_ended").tolist() == [0, 0, 2, 0] * 2
    returns = [none, none, 28, none, none, none, 728, none]
    np.testing.assert_array_equal(run.column("episode_return"), returns)
    np.testing.assert_array_equal(run.column("latest_return"), [none] * 2 + [28] * 4 + [728] * 2)
    np.testing.assert_array_equal(run.column("running_return")[:4], [6, 21, 3, 15])
    np.testing.assert_allclose(run.column("reward")[:3], [2, 5, 10 / 3], rtol=1e-6)
    assert run.column("big").tolist() == [0, 0, 2, 0] + [6] * 4


@pytest.mark.parametrize("chunk", [2, 4])
def test_replay(run, chunk):
    """At the end of a task the ring holds its last transitions, each of both environments.

    They are cleared by then, for the next task; in its midst they are not.
    """
    replay = jax.tree.map(lambda x: x[1], run.states[chunk].replay)
    added = 12 * chunk
    assert (int(replay.added), int(replay.cleared)) == (added, added)
    before = run.states[chunk - 1].replay
    assert (int(before.added[1]), int(before.cleared[1])) == (added - 12, added - 24)
    number = np.arange(added - CAPACITY, added)
    count = number // ENVS % 12 % 7  # steps into an episode
    row = number % CAPACITY
    rows = jax.tree.map(lambda x: np.asarray(x)[row], replay.rows)

    def bits(count):
        return np.packbits((count[:, None] >> np.arange(3)) & 1, axis=1)

    np.testing.assert_array_equal(rows.observation, bits(count))
    # What was reached before a restart, be the end a termination or not.
    np.testing.assert_array_equal(rows.reached, bits(count + 1))
    np.testing.assert_array_equal(rows.reward, count + 1 + (100 if chunk == 4 else 0))
    np.testing.assert_array_equal(rows.terminated, (count == 6) & (chunk == 2))


def test_nothing_is_learned_before_a_task_has_given_enough(run):
    learned = [False, False, True, True] * 2
    for name in ("policy_loss", "critic_1_loss", "alpha_loss", "entropy", "q"):
        np.testing.assert_array_equal(np.isfinite(run.column(name)), learned)
    params = [state.learner.params for state in run.states]
    equal(params[0], params[1])
    equal(params[2], params[3])  # across the task change: networks are kept
    with pytest.raises(AssertionError):
        equal(params[1], params[2])


def test_a_task_change_resets_all_else(run):
    before, after = run.states[2].learner, run.states[3].learner
    with pytest.raises(AssertionError):
        equal(before.targets, before.params["critic"])
    equal(after.targets, after.params["critic"])
    np.testing.assert_allclose(after.log_alpha, np.log(0.2), rtol=1e-6)
    assert (before.log_alpha != after.log_alpha).all()
    for name in ("policy", "critic"):
        old, new = before.optimizers[name], after.optimizers[name]
        assert (old.calls > 0).all() and (new.calls == 0).all()
        assert all((x == 0).all() for x in jax.tree.leaves(new.inner))
        assert any((x != 0).any() for x in jax.tree.leaves(old.inner))
        equal(new.log, old.log)
        equal(new.scales, old.scales)
        assert (old.key != new.key).any()
    assert all((x == 0).all() for x in jax.tree.leaves(after.optimizers["alpha"]))


def test_critics_differ_and_are_reset_differently(run):
    critic = run.states[0].learner.params["critic"]["params"]["hidden_0"]["kernel"]
    assert critic.shape == (LANES, 2, 3, 8) and (critic[:, 0] != critic[:, 1]).any()
    keys = run.states[0].learner.optimizers["critic"].key
    assert len(np.unique(np.asarray(keys).reshape(-1, keys.shape[-1]), axis=0)) == 2 * LANES


def test_reset_methods_act(run):
    for name in ("policy", "critic_1", "critic_2"):
        total = run.column(f"{name}_units_reset")
        assert total[0] == 0 and (np.diff(total) >= 0).all()
        assert (run.column(f"{name}_layers_skipped") == 0).all()
    assert run.column("policy_units_reset")[-1] > run.column("policy_units_reset")[4] > 0
    assert run.column("critic_1_units_reset")[-1] + run.column("critic_2_units_reset")[-1] > 0


def test_diagnostics(run):
    networks = ("policy", "critic_1", "critic_2")
    for prefix in (*(f"{name}_" for name in networks), ""):
        for name in ("dormant_ratio", "linearized_ratio", "low_variance_ratio"):
            ratio = run.column(prefix + name)
            assert ((ratio >= 0) & (ratio <= 1)).all()
        for name in ("srank", "stable_rank", "effective_rank", "feature_rank"):
            rank = run.column(prefix + name)
            assert np.isnan(rank[::2]).all() and (rank[1::2] >= 1).all()
    actor, one, other = (run.column(f"{name}_dormant_ratio") for name in networks)
    combined = (actor + (one + other) / 2) / 2
    np.testing.assert_allclose(run.column("dormant_ratio"), combined, rtol=1e-6)
    leaves = [x[0, 1] for x in jax.tree.leaves(run.states[-1].learner.params["critic"])]
    norm = np.sqrt(sum((x**2).sum() for x in leaves))
    np.testing.assert_allclose(run.column("critic_2_parameter_norm")[-1], norm, rtol=1e-5)
    assert (run.column("critic_1_gradient_norm")[2:4] > 0).all()


def test_evaluation(run):
    """At the end of a task: task 0 pays 1 + … + 7, task 1 pays 100 more at each step."""
    none = [np.nan] * 3
    for lane in range(LANES):
        of = {name: run.column(f"eval_{name}", lane) for name in ("seen", "task_0", "task_1")}
        np.testing.assert_array_equal(of["seen"], [*none, 28, *none, (28 + 728) / 2])
        np.testing.assert_array_equal(of["task_0"], [*none, 28, *none, 28])
        np.testing.assert_array_equal(of["task_1"], [*none, np.nan, *none, 728])


def test_evaluation_of_continuous_actions():
    _, rows = shapes(trainer(probes.Counting(), critic=MLP((8,), 1)), {})
    assert rows["eval_seen"].shape == rows["eval_task_1"].shape == (2,)


def test_published_returns():
    """An evaluation after 9 steps of a task, in which all environments restart."""
    run = Run(trainer(eval_every=0, diagnostics=False, published_every=18), 1)
    none = np.nan
    expected = [none, none, 28, 28, none, none, 728, 728]
    np.testing.assert_array_equal(run.column("published_return", 0), expected)
    np.testing.assert_array_equal(run.column("running_return", 0)[:4], [6, 21, 3, 6])


def test_measuring_does_not_change_training(run):
    without = Run(trainer(eval_every=0, diagnostics=False), LANES)
    for one, other in zip(without.states, run.states, strict=True):
        equal(one, other)
    for one, other in zip(without.rows, run.rows, strict=True):
        equal(one, {name: other[name] for name in one})
        assert {"eval_seen", "eval_task_0", "srank"} <= {*other} - {*one}


def test_resuming_is_exact(run):
    state = run.states[1]  # in the middle of a task, with what the replay holds
    for number in (1, 2, 3):
        state, rows = run.chunk(through_numpy(state), {}, ())
        equal(rows, run.rows[number])
    equal(state, run.states[4])
    assert run.chunk._cache_size() == 1


@pytest.mark.parametrize("kept", [(1,), (1, 2), (1, 2, 3)])
def test_resuming_from_a_store_is_exact(run, kept, tmp_path):
    """Amid the first task, at its end, where the replay is cleared, and amid the second."""
    with Store.create(tmp_path / "study", {}, {}) as store:
        columns = {name: np.zeros(0, int) for name in ("seed", "step", "task")}
        for number in range(max(kept)):
            store.write_part("m", number, columns)
            if number + 1 in kept:
                store.save("m", number, run.states[number + 1], ring=run.trainer.ring)
        found = store.restore("m", run.states[0])
    with np.load(tmp_path / f"study/checkpoints/m/{max(kept) - 1:06d}/lane-0001.npz") as lane:
        assert {x for x in lane if "replay" in x} == {"replay/added", "replay/cleared"}
    assert found is not None and found[0] == max(kept) - 1
    state = jax.tree.map(jnp.asarray, found[1])
    for number in range(max(kept), 4):
        state, rows = run.chunk(state, {}, ())
        equal(rows, run.rows[number])
    equal(state._replace(replay=()), run.states[4]._replace(replay=()))


def test_seeds_differ(run):
    assert (run.column("entropy", 0)[2:4] != run.column("entropy", 1)[2:4]).all()


def test_lanes_do_not_meet(run):
    """One lane learns while the other, which has just begun a task, does not yet."""
    mixed = jax.tree.map(lambda a, b: jnp.stack([a[0], b[1]]), run.states[0], run.states[1])
    after, rows = run.chunk(through_numpy(mixed), {}, ())
    for lane in range(LANES):

        def of(tree, lane=lane):
            return jax.tree.map(lambda x: x[lane], tree)

        equal(of(rows), of(run.rows[lane]))
        equal(of(after), of(run.states[lane + 1]))


@pytest.fixture
def elsewhere(monkeypatch):
    """Programs are made as for a GPU."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")


def test_elsewhere_the_learner_passes_through_no_branch(elsewhere):
    """It would be copied, in every step."""

    def plain(units, hyper):
        return attach_reset_method(tx=optax.adam(1e-3), reset_method=NoReset(), units=units)

    program = trainer(critic=MLP((13,), 2), optimizers={"policy": plain, "critic": plain})
    state = jax.eval_shape(program.init, jax.random.key(0), {}, ())
    lanes = jax.tree.map(lambda x: jax.ShapeDtypeStruct((LANES, *x.shape), x.dtype), state)
    program = jax.make_jaxpr(jax.vmap(lambda state: program.chunk(state, {}, ())))(lanes)
    shapes = [[out.aval.shape for out in branch.outvars] for branch in branches(program.jaxpr)]
    assert shapes  # that of an evaluation
    assert not [shape for each in shapes for shape in each if 13 in shape]


def test_elsewhere_it_is_the_same(run, elsewhere):
    """Lanes that are due and lanes that are not."""
    other = trainer()
    mixed = jax.tree.map(lambda a, b: jnp.stack([a[0], b[1]]), run.states[0], run.states[1])
    after, rows = jax.jit(jax.vmap(other.chunk, (0, None, None)))(through_numpy(mixed), {}, ())
    for lane in range(LANES):
        learner = jax.tree.map(lambda x, i=lane: x[i], (after.learner.params, rows))
        params = run.states[lane + 1].learner.params
        wanted = jax.tree.map(lambda x, i=lane: x[i], (params, run.rows[lane]))
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), learner, wanted)


def branches(jaxpr):
    """Every conditional of a program."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "cond":
            yield equation
        for inner in jax.tree.leaves(list(equation.params.values())):
            if hasattr(inner, "eqns"):
                yield from branches(getattr(inner, "jaxpr", inner))


def test_hyper_parameters():
    program = trainer(optimizers={name: optimizer("policy") for name in RESETS}, diagnostics=False)
    names = ("discount", "tau", "initial_alpha", "alpha_learning_rate", "target_entropy")
    own = {name: jnp.float32(0.5) for name in (*names, "learning_rate", "clip", "max_reset")}
    _, rows = shapes(program, own)
    assert "dormant_ratio" not in rows and "srank" not in rows
    with pytest.raises(ValueError, match="'epsilon'"):
        shapes(program, {"epsilon": jnp.float32(0.5)})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows_per_chunk": 3, "eval_every": 0}, "rows_per_chunk = 9 must divide .*, 12"),
        ({"eval_every": -12}, "eval_every must be 0, or a multiple of .* = 6 .*got -12"),
        ({"eval_every": 4}, "eval_every must be 0, or a multiple of .* = 6 .*got 4"),
        ({"eval_every": 24}, "that divides vector_steps_per_task, 12; got 24"),
        ({"eval_episodes": 0}, "eval_episodes must be a whole number above 0; got 0"),
        ({"learning_starts": -1}, "from 0 to the 24 steps of a task, got -1"),
        ({"learning_starts": 25}, "from 0 to the 24 steps of a task, got 25"),
        ({"tau": 1.5}, "tau must be at most 1, got 1.5"),
        ({"initial_alpha": 0.0}, "initial_alpha must be a number above 0; got 0.0"),
        ({"log_alpha_bounds": (2.0, -5.0)}, r"\(low, high\), got \(2.0, -5.0\)"),
        ({"capacity": 1}, "at least the 2 environments, got 1"),
        ({"policy": MLP((8,), 3)}, r"policy network must have 2 outputs: \[1, 3\] gave \[1, 3\]"),
        ({"critic": MLP((8,), 1)}, r"critic network must have 2 outputs: \[1, 3\] gave \[1, 1\]"),
        ({"optimizers": {"policy": optimizer("policy")}}, "of 'policy' and 'critic', got policy"),
    ],
)
def test_what_cannot_be(options, message):
    with pytest.raises(ValueError, match=message):
        trainer(**options)
