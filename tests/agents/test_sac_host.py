"""SAC on the host: equal to the pure one in strict order, staleness, evaluation, exact resume."""

import numpy as np
import pytest

from continual_learning.agents.sac import sac
from continual_learning.agents.sac_config import SACConfig
from continual_learning.agents.sac_host import sac_host
from continual_learning.envs.episodes import Episodes
from continual_learning.envs.streams import TaskStream, Values
from continual_learning.experiments.runner import Lanes
from continual_learning.networks import MLP
from tests.agents import host_probes, probes
from tests.agents.running import Run, equal, through_numpy
from tests.agents.test_sac import CONFIG, optimizer

POLICY, CRITIC = MLP((8,), 2, "relu", "he_uniform"), MLP((8,), 1, "relu", "he_uniform")
OPTIMIZERS = {name: optimizer(name) for name in ("policy", "critic")}
ENVS, LANES = 2, 2


def trainer(stream=None, staleness=0, **options):
    return sac_host(
        POLICY,
        CRITIC,
        stream or host_probes.CountingStream(),
        OPTIMIZERS,
        SACConfig(**CONFIG | options),
        environments=ENVS,
        workers=1,
        staleness=staleness,
    )


class HostRun:
    """All chunks of a host trainer: `states` before each and after the last, `rows` of each."""

    def __init__(self, trainer, lanes=LANES):
        self.trainer = trainer
        seeds = range(lanes)
        self.program = trainer.program(seeds, Lanes(list(seeds)).keys(), {})
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
    run = HostRun(trainer(eval_every=6, eval_episodes=3))
    yield run
    run.program.close()


@pytest.fixture(scope="module")
def pure():
    env = probes.Counting()
    stream = TaskStream(env, {"bonus": Values(0, 100), "length": Values(7, 1000)})
    config = SACConfig(**CONFIG | {"eval_every": 0})
    return Run(sac(POLICY, CRITIC, Episodes(env, ENVS, 7), stream, OPTIMIZERS, config), LANES)


def test_strict_order_is_the_pure_program(strict, pure):
    """Every column that both have, and what the replay holds."""
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
