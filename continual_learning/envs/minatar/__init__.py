"""The games of MinAtar (Young & Tian 2019, arXiv 1903.03176) as pure functions.

They follow the rules of the original exactly. They are not built on gymnax, because its Seaquest
differs from the original, its steps draw their random numbers themselves, so that a test cannot set
them, and it requires Gymnasium and plotting libraries.
"""

from continual_learning.envs.minatar.board import ACTIONS
from continual_learning.envs.minatar.environment import GAMES, MinAtar

__all__ = ["ACTIONS", "GAMES", "MinAtar"]
