"""The program of PPO: rows, task changes, one compilation, resuming, lanes, reset methods.

One program for most of it: two seeds count steps (see `Counting`) for two tasks, the policy with
CPR, the value with ReDo. Every iteration is one update, so that losses can be checked by hand.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from continual_learning.agents.common.normalizer import Normalizer
from continual_learning.agents.ppo.config import PPOConfig
from continual_learning.agents.ppo.returns import gae, shifted
from continual_learning.agents.ppo.train import ppo
from continual_learning.envs.catalog import OnDevice
from continual_learning.envs.draws import Values
from continual_learning.envs.streams import TaskStream
from continual_learning.networks import MLP
from continual_learning.studies import methods
from continual_learning.studies.experiment import MethodSpec
from tests.agents import probes
from tests.agents.running import Run, equal, shapes, through_numpy

ENVS, STEPS, LANES = 2, 5, 2
RESETS = {
    "policy": MethodSpec(clip=0.5, reset="cpr", options={"every": 2, "max_reset": 0.3}),
    "value": MethodSpec(clip=0.5, reset="redo", options={"every": 2, "threshold": 0.5}),
}
CONFIG = {
    "iterations_per_task": 4,
    "iterations_per_chunk": 2,
    "rollout": STEPS,
    "epochs": 1,
    "minibatches": 1,
    "normalize_observations": True,
    "reward_scale": 0.1,
    "reward_floor": 0.25,
    "reward_ceiling": 5.0,
    "probe": 16,
}
VALUE = MLP((8, 8), 1, "swish")


def optimizer(name):
    def make(units, hyper):
        return methods.transformation(RESETS[name], units, init="lecun_normal", hyper=hyper)

    return make


def trainer(env=None, stream=None, policy=None, optimizers=None, envs=ENVS, tasks=2, **options):
    """Task 0: episodes terminate after 7 steps. Task 1: they are truncated then."""
    env = env or probes.Counting()
    changes = {"bonus": Values(0, 100), "length": Values(7, 1000)}
    return ppo(
        policy or MLP((8, 8), 2, "swish"),
        VALUE,
        OnDevice(stream or TaskStream(env, changes), 7, "first"),
        optimizers or {name: optimizer(name) for name in RESETS},
        PPOConfig(environments=envs, **CONFIG | options),
        tasks=tasks,
    )


@pytest.fixture(scope="module")
def run():
    return Run(trainer(), LANES)


def test_one_program(run):
    assert (run.trainer.chunks, run.programs) == (4, 1)


def test_steps_tasks_and_their_parameters(run):
    assert run.column("step").tolist() == [10, 20, 30, 40, 50, 60, 70, 80]
    assert run.column("step").dtype == np.int32
    assert run.column("task").tolist() == [0] * 4 + [1] * 4
    assert run.column("bonus").tolist() == [0] * 4 + [100] * 4
    assert run.column("length").tolist() == [7] * 4 + [1000] * 4


def test_episodes_across_iterations_chunks_and_tasks(run):
    """Step k of an episode pays k + bonus; it ends after step 7, in iterations of 5 steps."""
    none, ended = np.nan, [0, 2, 2, 0]
    assert run.column("episodes_ended").tolist() == ended * 2
    np.testing.assert_array_equal(
        run.column("episode_return"), [none, 28, 28, none, none, 728, 728, none]
    )
    np.testing.assert_array_equal(run.column("episode_length"), [none, 7, 7, none] * 2)
    # The last that ended, of whichever task.
    np.testing.assert_array_equal(
        run.column("latest_return"), [none, 28, 28, 28, 28, 728, 728, 728]
    )
    # After 5, 10, 15 and 20 steps an episode is 5, 3, 1 and 6 steps old.
    paid = np.array([15, 6, 1, 21])
    np.testing.assert_array_equal(
        run.column("running_return"), [*paid, *(paid + 100 * np.array([5, 3, 1, 6]))]
    )
    np.testing.assert_allclose(run.column("reward")[:2], [3, (6 + 7 + 1 + 2 + 3) / 5], rtol=1e-6)


def test_metrics_of_the_environment_are_summed(run):
    # In task 0 one step of an episode pays more than 6, in task 1 all do.
    assert run.column("big").tolist() == [0, 2, 2, 0] + [10] * 4


def test_normalizer(run):
    seen = [0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5]
    for chunk, count in enumerate([0, 10, 20]):
        normalizer = Normalizer(*(x[0] for x in run.states[chunk].normalizer))
        assert normalizer.samples == count * ENVS
        if count:
            np.testing.assert_allclose(normalizer.mean, [np.mean(seen[:count])], rtol=1e-5)
            np.testing.assert_allclose(normalizer.std, [np.std(seen[:count])], rtol=1e-5)


@pytest.mark.parametrize("chunk", [0, 1, 3])
def test_value_loss_and_explained_variance_by_hand(run, chunk):
    """The first iteration of a chunk, from the state before it.

    It covers the normalized observations (that of the bootstrap value too), the scale and then
    the bounds of rewards, and what termination (chunk 1) and truncation (chunk 3) do.
    """
    before, rows = jax.tree.map(lambda x: x[0], (run.states[chunk], run.rows[chunk]))
    step = np.arange(STEPS) + (10 if chunk % 2 else 0)
    observation = (step % 7).astype(np.float32)
    reward = (observation + 1) * 0.1 + (10 if chunk == 3 else 0)
    ends, last = step % 7 == 6, np.float32((step[-1] + 1) % 7)
    normalizer = Normalizer(*map(jnp.asarray, before.normalizer))
    seen = normalizer.normalize(jnp.asarray([*observation, last])[:, None])
    values = VALUE.apply(before.params["value"], seen)
    targets, _ = gae(
        jnp.clip(jnp.asarray(reward, jnp.float32), 0.25, 5.0)[:, None],
        values[:-1],
        shifted(values[:-1], values[-1]),
        jnp.asarray(ends & (chunk < 2))[:, None],
        jnp.asarray(ends & (chunk >= 2))[:, None],
        discount=0.97,
        gae_lambda=0.95,
    )
    errors = np.asarray(targets - values[:-1])
    np.testing.assert_allclose(rows["value_loss"][0], 0.25 * (errors**2).mean(), rtol=1e-4)
    explained = 1 - errors.var() / np.var(targets)
    np.testing.assert_allclose(rows["explained_variance"][0], explained, rtol=1e-3, atol=1e-4)
    assert rows["kl"][0] == pytest.approx(0, abs=1e-5) and rows["clip_fraction"][0] == 0


@pytest.mark.parametrize("of", ["applied", "sampled"])
def test_an_action_limit(of):
    """Actions of about N(0, 0.7²) are clipped to ±0.1; the reward is −(action − 0.5)²."""
    env = probes.WantedAction()
    program = trainer(
        env,
        TaskStream(env, {}),
        optimizers=dict.fromkeys(("policy", "value"), optimizer("policy")),
        envs=32,
        action_limit=0.1,
        log_prob_of=of,
        iterations_per_task=1,
        iterations_per_chunk=1,
        minibatches=2,
    )
    _, rows = jax.jit(program.chunk)(program.init(jax.random.key(0), {}, ()), {}, ())
    # Hardly any action is within the limits, so the rewards are those of −0.1 and 0.1.
    assert 0.7 < rows["clipped_actions"][0] < 1
    assert -0.36 < rows["reward"][0] < -0.16
    if of == "applied":
        assert rows["initial_kl"][0] == pytest.approx(0, abs=1e-6)
        assert rows["initial_clip_fraction"][0] == 0
    else:  # before any update, and although the policy is the one that acted
        assert rows["initial_kl"][0] > 0.1
        assert rows["initial_clip_fraction"][0] > 0.3


def test_tasks_have_their_own_starts(run):
    keys = [jax.random.key_data(state.episodes.key) for state in run.states[1:]]
    np.testing.assert_array_equal(keys[0], keys[1])
    assert (keys[1] != keys[2]).any()
    np.testing.assert_array_equal(keys[2], keys[3])


def test_reset_methods_act(run):
    for name in ("policy_units_reset", "value_units_reset"):
        total = run.column(name)
        assert total[0] == 0 and total[-1] > 0 and (np.diff(total) >= 0).all()
    assert (run.column("policy_layers_skipped") == 0).all()


def test_diagnostics(run):
    for prefix in ("policy_", "value_", ""):
        for name in ("dormant_ratio", "linearized_ratio", "low_variance_ratio"):
            ratio = run.column(prefix + name)
            assert ((ratio >= 0) & (ratio <= 1)).all()
        for name in ("srank", "stable_rank", "effective_rank", "feature_rank"):
            rank = run.column(prefix + name)
            assert np.isnan(rank[::2]).all() and (rank[1::2] >= 1).all()
    both = [run.column(f"{name}_dormant_ratio") for name in ("policy", "value")]
    np.testing.assert_allclose(run.column("dormant_ratio"), np.mean(both, axis=0), rtol=1e-6)
    leaves = [x[0] for x in jax.tree.leaves(run.states[-1].params["policy"])]
    norm = np.sqrt(sum((x**2).sum() for x in leaves))
    np.testing.assert_allclose(run.column("policy_parameter_norm")[-1], norm, rtol=1e-5)
    assert (run.column("value_gradient_norm") > 0).all()


def test_resuming_is_exact(run):
    state = run.states[2]
    for number in (2, 3):
        state, rows = run.chunk(through_numpy(state), {}, ())
        equal(rows, run.rows[number])
    equal(state, run.states[4])
    assert run.chunk._cache_size() == 1


def test_every_iteration_draws_its_own_actions(run):
    norms = []
    for iteration in (0, 2):  # of one task, from one state
        state = through_numpy(run.states[0])._replace(
            iteration=jnp.full(LANES, iteration, jnp.int32)
        )
        norms.append(run.chunk(state, {}, ())[1]["policy_gradient_norm"][:, 0])
    assert (norms[0] != norms[1]).all()


def test_seeds_differ(run):
    assert (run.column("entropy", 0) != run.column("entropy", 1)).all()


def test_lanes_are_as_single_runs(run):
    chunk = jax.jit(run.trainer.chunk)
    for lane in range(LANES):
        state = jax.tree.map(lambda x, lane=lane: x[lane], run.states[0])
        for number in range(run.trainer.chunks):
            state, rows = chunk(state, {}, ())
            for name in ("entropy", "value_loss", "policy_units_reset", "episode_return", "srank"):
                expected = run.rows[number][name][lane]
                np.testing.assert_allclose(rows[name], expected, rtol=1e-3, atol=1e-4)
    assert chunk._cache_size() == 1


def test_hyper_parameters():
    program = trainer(optimizers={name: optimizer("policy") for name in RESETS}, diagnostics=False)
    names = ("discount", "gae_lambda", "clip_ratio", "entropy_coefficient")
    own = {name: jnp.float32(0.5) for name in (*names, "learning_rate", "clip", "max_reset")}
    _, rows = shapes(program, own)
    assert "dormant_ratio" not in rows and "srank" not in rows
    with pytest.raises(ValueError, match="'epsilon'"):
        shapes(program, {"epsilon": jnp.float32(0.5)})


def test_columns_must_differ():
    class Entropic(probes.Counting):
        parameters = {**probes.Counting.parameters, "entropy": 1.0}  # noqa: RUF012

    program = trainer(Entropic())
    with pytest.raises(ValueError, match="There is a column 'entropy' already"):
        shapes(program, {})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"iterations_per_chunk": 3}, "must divide the 4 iterations of a task.*got 3"),
        ({"minibatches": 3}, "must divide the 10 samples of a rollout, as 2 does; got 3"),
        ({"discount": 1.5}, "discount must be at most 1, got 1.5"),
        ({"clip_ratio": 0.0}, "clip_ratio must be a number above 0; got 0.0"),
        ({"truncation": "ignore"}, "Unknown truncation 'ignore'. Valid: mask, bootstrap"),
        ({"policy": MLP((8,), 3)}, r"policy network must have 2 outputs: \[1, 1\] gave \[1, 3\]"),
        ({"optimizers": {"policy": optimizer("policy")}}, "of 'policy' and 'value', got policy"),
    ],
)
def test_what_cannot_be(options, message):
    with pytest.raises(ValueError, match=message):
        trainer(**options)
