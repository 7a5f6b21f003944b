"""PPO learns a classic: the pendulum of the example swings up."""

import numpy as np

from examples import own_environment


def test_the_pendulum_is_swung_up():
    rows = own_environment.train(seeds=2, tasks=1, iterations=40)
    returns = rows["episode_return"]
    first, last = (returns[:, part] for part in (slice(0, 6), slice(-6, None)))
    assert (np.nanmean(first, axis=1) < -1000).all()  # it hangs, or spins
    assert (np.nanmean(last, axis=1) > -400).all()
    assert rows["step"][0, -1] == 40 * 100 * 64
    assert (rows["episodes_ended"][:, 1::2] == 64).all()  # 200 steps are two rollouts
    assert np.isnan(returns[:, 0::2]).all()
