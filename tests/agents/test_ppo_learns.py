"""PPO on environments whose values and best actions are known, all in one program."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.agents.ppo.config import PPOConfig
from continual_learning.agents.ppo.train import ppo
from continual_learning.envs.catalog import OnDevice
from continual_learning.envs.streams import TaskStream
from continual_learning.networks import MLP, DiagonalGaussian
from continual_learning.optim import NoReset, attach_reset_method
from tests.agents import probes

PROBES = (
    probes.ConstantReward(),
    probes.SeenReward(),
    probes.LateReward(),
    probes.WantedAction(),
    probes.SeenAction(),
    probes.Forever(),
)
LANES = [type(probe).__name__ for probe in PROBES] + ["SeenReward, scaled and floored"]
POLICY, VALUE = MLP((16,), 2, "tanh"), MLP((16,), 1, "tanh")
DISCOUNT, ENTROPY = 0.8, 0.08


def optimizer(rate):
    def make(units, hyper):
        return attach_reset_method(tx=optax.adam(rate), reset_method=NoReset(), units=units)

    return make


def with_traced(config, **numbers):
    """The configuration with numbers that differ between lanes, which no check could read."""
    config = copy.copy(config)
    for name, number in numbers.items():
        object.__setattr__(config, name, number)
    return config


@pytest.fixture(scope="module")
def learned():
    """{lane: (values at −1, 0, 1, (means, standard deviations) there, rows)}."""

    def train(key, number, scale, floor):
        env = probes.Among(PROBES, number)
        config = PPOConfig(
            environments=32,
            iterations_per_task=150,
            iterations_per_chunk=150,
            rollout=10,
            minibatches=4,
            discount=DISCOUNT,
            entropy_coefficient=ENTROPY,
            normalize_advantages=False,
            truncation="bootstrap",
            diagnostics=False,
        )
        program = ppo(
            POLICY,
            VALUE,
            OnDevice(TaskStream(env, {}), 5, "fresh"),
            {"policy": optimizer(2e-3), "value": optimizer(1e-2)},
            with_traced(config, reward_scale=scale, reward_floor=floor),
            tasks=1,
        )
        state, rows = program.chunk(program.init(key, {}, ()), {}, ())
        x = jnp.array([[-1.0], [0.0], [1.0]])
        policy = DiagonalGaussian.from_outputs(POLICY.apply(state.params["policy"], x))
        return (
            VALUE.apply(state.params["value"], x)[:, 0],
            (policy.mean[:, 0], policy.std[:, 0]),
            rows,
        )

    out = jax.jit(jax.vmap(train))(
        jax.random.split(jax.random.key(0), len(LANES)),
        jnp.array([*range(len(PROBES)), 1]),
        jnp.array([1.0] * len(PROBES) + [0.5]),
        jnp.array([-jnp.inf] * len(PROBES) + [-0.25]),
    )
    return {lane: jax.tree.map(lambda x, i=i: x[i], out) for i, lane in enumerate(LANES)}


@pytest.mark.parametrize(
    ("lane", "states", "values"),
    [
        ("ConstantReward", [0], [1]),
        ("SeenReward", [-1, 1], [-1, 1]),
        ("LateReward", [0, 1], [DISCOUNT, 1]),
        ("Forever", [0], [1 / (1 - DISCOUNT)]),
        ("SeenReward, scaled and floored", [-1, 1], [-0.25, 0.5]),
    ],
)
def test_values(learned, lane, states, values):
    found = np.array(learned[lane][0])[np.array(states) + 1]
    np.testing.assert_allclose(found, values, atol=0.05)


@pytest.mark.parametrize(
    ("lane", "states", "actions"), [("WantedAction", [0], [0.5]), ("SeenAction", [-1, 1], [-1, 1])]
)
def test_actions(learned, lane, states, actions):
    """At the variance c/2 the reward, −variance, and the bonus, c·log std, balance."""
    _, (mean, std), rows = learned[lane]
    at = np.array(states) + 1
    np.testing.assert_allclose(np.array(mean)[at], actions, atol=0.08)
    np.testing.assert_allclose(np.array(std)[at], (ENTROPY / 2) ** 0.5, rtol=0.5)
    assert rows["episode_return"][0] < -0.5
    assert rows["episode_return"][-1] > -0.08


def test_returns_are_reported_as_the_environment_gave_them(learned):
    for lane in ("SeenReward", "SeenReward, scaled and floored"):
        mean = np.array(learned[lane][2]["episode_return"])
        assert (np.abs(mean) < 0.3).all()  # of −1 and 1, 320 of them
    rows = learned["Forever"][2]
    assert (rows["episode_return"] == 5).all() and (rows["reward"] == 1).all()
    assert (learned["LateReward"][2]["reward"] == 0.5).all()


def test_what_learning_reports(learned):
    rows = learned["SeenAction"][2]
    assert (rows["kl"] >= 0).all() and (rows["kl"] < 0.1).all()
    assert (rows["clip_fraction"] < 0.5).all() and (rows["clip_fraction"] > 0).any()
    assert learned["SeenReward"][2]["explained_variance"][-1] > 0.99
    assert np.isnan(learned["ConstantReward"][2]["explained_variance"][-1])
