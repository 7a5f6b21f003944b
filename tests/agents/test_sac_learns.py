"""SAC on environments whose values and best actions are known."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.agents.sac.config import SACConfig
from continual_learning.agents.sac.train import sac
from continual_learning.envs.catalog import OnDevice
from continual_learning.envs.streams import TaskStream
from continual_learning.networks import MLP, Categorical, TanhGaussian
from continual_learning.optim import NoReset, attach_reset_method
from tests.agents import probes

DISCOUNT = 0.8


def optimizer(units, hyper):
    tx = optax.adam(hyper.get("learning_rate", 3e-3))
    return attach_reset_method(tx=tx, reset_method=NoReset(), units=units, histogram=False)


def train(env, policy, critic, lanes, length=5, **options):
    """The final parameters and rows of each lane: {name: hyper-parameters}."""
    config = {
        "environments": 8,
        "vector_steps_per_task": 600,
        "steps_per_row": 60,
        "rows_per_chunk": 10,
        "capacity": 4000,
        "batch": 64,
        "replay_ratio": 2,
        "learning_starts": 64,
        "discount": DISCOUNT,
        "tau": 0.05,
        "alpha_learning_rate": 3e-3,
        "log_alpha_bounds": (-12.0, 2.0),
        "diagnostics": False,
    }
    config |= options
    optimizers = {"policy": optimizer, "critic": optimizer}

    def lane(key, number, hyper):
        chosen = env(number) if callable(env) else env
        program = sac(
            policy,
            critic,
            OnDevice(TaskStream(chosen, {}), length, "fresh"),
            optimizers,
            SACConfig(**config),
            tasks=1,
        )
        state, rows = program.chunk(program.init(key, hyper, ()), hyper, ())
        return state.learner.params, rows

    names = {key for hyper in lanes.values() for key in hyper if key != "probe"}
    hyper = {name: jnp.array([float(of[name]) for of in lanes.values()]) for name in names}
    numbers = jnp.array([of.get("probe", 0) for of in lanes.values()])
    keys = jax.random.split(jax.random.key(0), len(lanes))
    out = jax.jit(jax.vmap(lane))(keys, numbers, hyper)
    return {name: jax.tree.map(lambda x, i=i: x[i], out) for i, name in enumerate(lanes)}


PROBES = (probes.WantedAction(), probes.SeenAction(), probes.LateReward(), probes.Forever())
POLICY, CRITIC = MLP((32, 32), 2, "relu", "he_uniform"), MLP((32, 32), 1, "relu", "he_uniform")


@pytest.fixture(scope="module")
def continuous():
    """With the temperature tuned to an entropy of 0.2 for one probe, and almost 0 for all."""
    tuned = {"probe": 0, "initial_alpha": 0.2, "alpha_learning_rate": 1e-2}
    lanes = {"tuned": tuned} | {
        type(probe).__name__: {"probe": i, "initial_alpha": 1e-4, "alpha_learning_rate": 0}
        for i, probe in enumerate(PROBES)
    }
    env = functools.partial(probes.Among, PROBES)
    return train(env, POLICY, CRITIC, lanes, target_entropy=0.2)


def mode(params, x):
    outputs = POLICY.apply(params["policy"], jnp.array(x)[:, None])
    return TanhGaussian.from_outputs(outputs).mode()[:, 0]


def q(params, x):
    """What both critics say of what the policy does there, [2, observations]."""
    pairs = jnp.stack([jnp.array(x), mode(params, x)], axis=1)
    return jax.vmap(CRITIC.apply, (0, None))(params["critic"], pairs)[..., 0]


def test_the_best_action(continuous):
    np.testing.assert_allclose(mode(continuous["WantedAction"][0], [0.0]), [0.5], atol=0.1)
    # No action is quite −1 or 1.
    np.testing.assert_allclose(mode(continuous["SeenAction"][0], [-1.0, 1.0]), [-1, 1], atol=0.3)
    assert continuous["SeenAction"][1]["reward"][-1] > -0.1
    assert continuous["WantedAction"][1]["reward"][-1] > -0.03
    assert continuous["WantedAction"][1]["reward"][0] < -0.2


def test_the_end_is_the_end(continuous):
    found = q(continuous["LateReward"][0], [0.0, 1.0])
    np.testing.assert_allclose(found, [[DISCOUNT, 1]] * 2, atol=0.05)


def test_a_time_limit_is_not_the_end(continuous):
    """Reward 1 for ever, cut after 5 steps: worth 5. Were the cut an end, it would be below 3.4."""
    found = q(continuous["Forever"][0], [0.0])
    np.testing.assert_allclose(found, [[1 / (1 - DISCOUNT)]] * 2, rtol=0.05)


def test_the_temperature_moves_the_entropy_to_its_target(continuous):
    rows = continuous["tuned"][1]
    assert rows["entropy"][0] > 0.4
    np.testing.assert_allclose(rows["entropy"][-1], 0.2, atol=0.15)
    np.testing.assert_allclose(continuous["WantedAction"][1]["alpha"], 1e-4, rtol=1e-5)
    assert continuous["WantedAction"][1]["entropy"][-1] < -0.2


LOGITS = MLP((32,), 3, "relu", "he_uniform")


@pytest.fixture(scope="module")
def bandit():
    return train(probes.Bandit(), LOGITS, LOGITS, {"0.5": {}}, eval_every=600)["0.5"]


def test_bandit(bandit):
    """Values are the rewards; the policy is softmax(Q/α) with half of the largest entropy."""
    params, rows = bandit
    values = jax.vmap(LOGITS.apply, (0, None))(params["critic"], jnp.zeros((1, 1)))[:, 0]
    np.testing.assert_allclose(values, [[0.1, 0.5, 1]] * 2, atol=0.06)
    np.testing.assert_allclose(rows["entropy"][-1], 0.5 * math.log(3), atol=0.06)
    policy = Categorical.from_outputs(LOGITS.apply(params["policy"], jnp.zeros((1, 1))))
    # The likeliest arm alone is played in an evaluation, others too in training.
    assert rows["eval_seen"][-1] == 1 and rows["reward"][-1] < 0.9
    best = jax.nn.softmax(jnp.array([0.1, 0.5, 1.0]) / rows["alpha"][-1])
    np.testing.assert_allclose(policy.probs[0], best, atol=0.08)


def test_grid():
    """From every cell by a shortest way."""
    network = MLP((32,), 4, "relu", "he_uniform")
    hyper = {"initial_alpha": 0.02, "alpha_learning_rate": 0}
    params, rows = train(probes.Grid(), network, network, {"0": hyper}, length=10)["0"]
    grid, cells = probes.Grid(), [(r, c) for r in range(3) for c in range(3)][:-1]
    seen = jnp.stack([grid.observe(jnp.array(cell), {}) for cell in cells])
    action = Categorical.from_outputs(network.apply(params["policy"], seen)).mode()
    values = jax.vmap(network.apply, (0, None))(params["critic"], seen).mean(0)
    for cell, a, value in zip(cells, action, values, strict=True):
        after, _ = grid.step(None, jnp.array(cell), a, {})
        assert sum(after.tolist()) == sum(cell) + 1  # right or down
        assert value[a] == pytest.approx(DISCOUNT ** (4 - sum(cell) - 1), abs=0.15)
    assert rows["episode_length"][-1] < 3 < rows["episode_length"][0]
