"""Robots of Brax on ground that changes; needs the extra `brax`."""

from continual_learning.envs.robots.ant import Ant
from continual_learning.envs.robots.humanoid import Humanoid
from continual_learning.envs.robots.robot import BRAX_SOLVER, Robot, Solver

__all__ = ["BRAX_SOLVER", "Ant", "Humanoid", "Robot", "Solver"]
