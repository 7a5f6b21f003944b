"""Step by step equal to the official games, which the extra `oracle` installs (GPL)."""

import numpy as np
import pytest

from continual_learning.envs.minatar import GAMES
from tests.envs.minatar.compare import assert_equal
from tests.envs.minatar.events import EVENTS

pytest.importorskip(
    "minatar",
    reason="the official games are not installed (pip install '.[oracle]'); what was recorded of "
    "them is compared in test_recorded.py",
)

# Policy, steps, share of episodes that start further on, steps after which one is cut.
PLAYS = (
    ("random", 5000, 0.5, 300),
    ("stubborn", 10_000, 0.5, 300),
    ("shooting", 30_000, 1.0, 50),
    ("greedy", 3000, 0.5, 300),
    ("trained", 10_000, 0.0, 1000),
)


@pytest.mark.parametrize("name", GAMES)
def test_every_step_is_that_of_the_official_game(name):
    from tests.envs.minatar.official import play

    counts: dict[str, int] = {}
    steps = 0
    for seed, (policy, number, varied, length) in enumerate(PLAYS):
        for ramping in (True, False):
            number = number if ramping else number // 5
            record = play(name, policy, number, seed, ramping, varied, length)
            assert_equal(name, record, ramping)
            steps += len(record["action"])
            for event, where in EVENTS[name](record).items():
                counts[event] = counts.get(event, 0) + int(np.sum(where))
    print(f"\n{name}: {steps} steps equal; {counts}")
    assert not [event for event, count in counts.items() if count == 0]


@pytest.mark.parametrize("name", GAMES)
def test_trained_policies_play_well(name):
    """So that what is seen is not what every policy sees."""
    from tests.envs.minatar.official import play

    def paid(policy):
        record = play(name, policy, 5000, seed=0, varied=0.0, length=1000)
        return record["reward"].sum() / record["first"].sum()

    returns = paid("trained"), paid("random")
    print(f"\n{name}: an episode is paid {returns[0]:.1f}, of random actions {returns[1]:.1f}")
    assert returns[0] > 2 * returns[1] + 0.3


@pytest.mark.parametrize("name", GAMES)
def test_channels_and_actions_have_the_official_order(name):
    from importlib import import_module

    env = import_module(f"minatar.environments.{name}").Env()
    assert tuple(env.channels) == GAMES[name].CHANNELS
    assert tuple(env.channels.values()) == tuple(range(len(env.channels)))
    assert tuple(env.minimal_action_set()) == GAMES[name].MINIMAL
