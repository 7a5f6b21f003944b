"""PPO with discrete actions, and on environments of the host, on problems of known answers."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.agents.ppo.actions import Continuous, Discrete, actions_of
from continual_learning.agents.ppo.config import PPOConfig
from continual_learning.agents.ppo.host import ppo_host
from continual_learning.agents.ppo.losses import policy_loss
from continual_learning.agents.ppo.train import ppo
from continual_learning.envs.catalog import OnDevice, OnHost
from continual_learning.envs.streams import TaskStream
from continual_learning.networks import MLP, Categorical, DiagonalGaussian
from continual_learning.networks.catalog import MLPs
from continual_learning.optim import NoReset, attach_reset_method
from continual_learning.studies import registry
from tests.agents import host_probes, probes
from tests.agents.running import equal, through_numpy
from tests.agents.test_sac_host import HostRun, gone

SMALL = {
    "environments": 2,
    "iterations_per_task": 4,
    "iterations_per_chunk": 2,
    "rollout": 5,
    "epochs": 1,
    "minibatches": 1,
    "probe": 16,
}


def adam(rate):
    def make(units, hyper):
        return attach_reset_method(tx=optax.adam(rate), reset_method=NoReset(), units=units)

    return make


OPTIMIZERS = {"policy": adam(5e-3), "value": adam(1e-2)}


def test_kinds_of_actions():
    assert actions_of(probes.Bandit()) == Discrete(3)
    assert actions_of(probes.Counting()) == Continuous(1)
    logits = jnp.log(jnp.array([[0.2, 0.3, 0.5]]))
    policy = Discrete(3).policy(logits)
    action = jnp.array([2])
    np.testing.assert_allclose(policy.log_prob(action), np.log([0.5]), rtol=1e-6)
    kept = Discrete(3).kept(action)
    assert kept.shape == (1, 1) and kept.dtype == jnp.float32
    np.testing.assert_array_equal(Discrete(3).taken(kept), action)


def test_the_loss_of_a_choice_by_hand():
    """Ratio 0.5 / 0.25 = 2 is clipped to 1.2; the entropy is that of the logits."""
    policy = Categorical.from_outputs(jnp.log(jnp.array([[0.5, 0.25, 0.25]])))
    loss, said = policy_loss(
        policy,
        jnp.array([0]),
        jnp.log(jnp.array([0.25])),
        jnp.array([3.0]),
        clip_ratio=0.2,
        entropy_coefficient=0.1,
        normalize=False,
    )
    entropy = 0.5 * np.log(2) + 0.5 * np.log(4)
    np.testing.assert_allclose(loss, -3.6 - 0.1 * entropy, rtol=1e-6)
    np.testing.assert_allclose(said["entropy"], entropy, rtol=1e-6)
    assert said["clip_fraction"] == 1


def test_it_learns_which_way_to_go():
    """Of four ways on 3 × 3 cells only right and down lead to the end, at most four steps away."""
    env = probes.Grid()
    config = PPOConfig(
        environments=32,
        iterations_per_task=60,
        iterations_per_chunk=60,
        rollout=16,
        minibatches=4,
        discount=0.9,
        entropy_coefficient=1e-3,
        truncation="bootstrap",
        diagnostics=False,
    )
    policy = MLP((32,), 4, "tanh", "he_uniform")
    program = ppo(
        policy,
        MLP((32,), 1, "tanh", "he_uniform"),
        OnDevice(TaskStream(env, {}), 30, "fresh"),
        OPTIMIZERS,
        config,
        tasks=1,
    )
    state = jax.jit(program.init)(jax.random.key(0), {}, ())
    state, rows = jax.jit(program.chunk)(state, {}, ())
    best = jnp.argmax(policy.apply(state.params["policy"], jnp.eye(9)), axis=1)
    cells = np.arange(8)  # the last one is the end
    right, down = cells % 3 < 2, cells // 3 < 2
    chosen = np.asarray(best)[:8]
    assert np.all(np.where(chosen == 0, right, (chosen == 2) & down))
    assert rows["episode_length"][-1] < 2.6 < rows["episode_length"][0]


def host(stream=None, **options):
    return ppo_host(
        MLP((8,), 2, "tanh"),
        MLP((8,), 1, "tanh"),
        OnHost(stream or host_probes.CountingStream(), workers=1),
        OPTIMIZERS,
        PPOConfig(**SMALL | options),
        tasks=2,
    )


@pytest.fixture(scope="module")
def run():
    run = HostRun(host(normalize_observations=True), 2)
    yield run
    pids = run.program._pool.pids
    run.program.close()
    assert gone(pids)


def test_rows_of_the_host(run):
    """Episodes of 7 steps; those of the second task pay 100 more a step and are cut."""
    assert run.column("step").tolist() == [10, 20, 30, 40, 50, 60, 70, 80]
    assert run.column("task").tolist() == [0] * 4 + [1] * 4
    assert run.column("episode_return")[1] == 28 and run.column("episode_return")[5] == 728
    assert run.column("latest_return")[3] == 28
    assert np.isfinite(run.column("policy_loss")).all()
    assert np.isfinite(run.column("srank")).tolist() == [False, True] * 4
    assert {*run.rows[0]} == {*run.program.columns}
    np.testing.assert_array_equal(run.column("initial_clip_fraction"), 0)


def test_the_host_resumes_exactly(run):
    again = HostRun.__new__(HostRun)
    again.program = host(normalize_observations=True).program(
        range(2), jax.vmap(jax.random.key)(jnp.arange(2)), {}
    )
    try:
        again.program.compile(fresh=False, quick=True)
        state = again.program.place(through_numpy(run.states[1]))
        for number in range(1, 4):
            state, rows = again.program.chunk(state)
            equal(through_numpy(state), run.states[number + 1])
            equal(rows, run.rows[number])
    finally:
        again.program.close()


def test_lanes_of_the_host_are_those_of_single_runs(run):
    alone = HostRun(host(normalize_observations=True), 1)
    alone.program.close()
    for name in ("policy_loss", "latest_return", "value_loss"):
        np.testing.assert_allclose(alone.column(name), run.column(name, 0), rtol=1e-4, atol=1e-5)


def test_it_learns_on_the_host():
    """The best action is what is seen, −0.5 or 0.5.

    Faster learning stops exploring too early in some seeds, and in which depends on rounding.
    """
    policy = MLP((16,), 2, "tanh")
    made = ppo_host(
        policy,
        MLP((16,), 1, "tanh"),
        OnHost(host_probes.TargetStream(), workers=1),
        {"policy": adam(5e-4), "value": adam(1e-2)},
        PPOConfig(
            environments=16,
            iterations_per_task=160,
            iterations_per_chunk=160,
            rollout=8,
            minibatches=4,
            discount=0.5,
            entropy_coefficient=0.01,
            diagnostics=False,
        ),
        tasks=1,
    )
    run = HostRun(made, 5)
    run.program.close()
    seen = jnp.array([[-0.5], [0.5]])
    outputs = jax.vmap(policy.apply, (0, None))(run.states[-1].params["policy"], seen)
    means = DiagonalGaussian.from_outputs(outputs).mean
    np.testing.assert_allclose(np.median(means, 0), seen, atol=0.1)


def test_every_agent_on_every_stream_that_fits():
    """Programs of pairs that no other test makes; nothing is run."""
    games = registry.get("continual_minatar", "smoke")
    for name in ("minatar_ppo", "slippery_ant_sac"):
        with jax.numpy_rank_promotion("allow"):
            shapes(registry.get(name, "smoke").override(diagnostics=False))
    small = {"vector_steps_per_task": 8, "steps_per_row": 4, "rows_per_chunk": 1}
    both = games.override(networks=MLPs(hidden=(4,)), eval_every=0, learning_starts=8, **small)
    shapes(both.override(diagnostics=False))


def shapes(experiment):
    from continual_learning.studies import build

    program = build.trainer(experiment, "cpr", None)
    state = jax.eval_shape(program.init, jax.random.key(0), {}, ())
    after, rows = jax.eval_shape(program.chunk, state, {}, ())
    assert jax.tree.map(lambda x: x.shape, after) == jax.tree.map(lambda x: x.shape, state)
    assert "policy_units_reset" in rows
