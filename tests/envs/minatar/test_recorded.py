"""Equal to what was recorded of the official games, which need not be installed for it."""

import jax
import numpy as np
import pytest

from continual_learning.envs.minatar import GAMES
from tests.envs.minatar.compare import assert_equal
from tests.envs.minatar.record import read


@pytest.mark.parametrize("name", GAMES)
def test_every_recorded_step(name):
    record = read(name)
    assert len(record["action"]) == 1800 and record["over"].sum() > 5
    assert_equal(name, record, ramping=True)


def test_a_wrong_step_is_noticed():
    record = read("breakout")
    paddle = record["after"].paddle.copy()
    paddle[7] = (paddle[7] + 1) % 10
    with pytest.raises(AssertionError, match="paddle"):
        assert_equal("breakout", {**record, "after": record["after"]._replace(paddle=paddle)}, True)
    seen = jax.tree.map(np.copy, record["observation"])
    seen[7, 0, 0, 0] ^= True
    with pytest.raises(AssertionError, match="observation"):
        assert_equal("breakout", {**record, "observation": seen}, True)
