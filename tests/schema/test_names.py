"""Every name that a file may give has something that it names, and the other way round."""

from typing import get_args

from continual_learning.envs import minatar
from continual_learning.networks.mlp import ACTIVATIONS
from continual_learning.optim.fresh import INITIALIZERS
from continual_learning.schema import names


def test_each_name_is_that_of_something():
    assert get_args(names.Activation) == tuple(ACTIVATIONS)
    assert get_args(names.Init) == tuple(INITIALIZERS)
    assert tuple(minatar.GAMES) == names.GAMES
