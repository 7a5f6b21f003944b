"""The five games of MinAtar (Young & Tian, 2019) as pure functions, equal to the original's.

They are written from the rules, not built on gymnax: its Seaquest differs from the original, its
draws happen inside its steps, so that they cannot be given, and it brings Gymnasium and plotting
libraries along.
"""

from continual_learning.envs.minatar.board import ACTIONS
from continual_learning.envs.minatar.environment import GAMES, MinAtar

__all__ = ["ACTIONS", "GAMES", "MinAtar"]
