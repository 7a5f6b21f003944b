"""The public names of `continual_learning.sweeps`, which imports them at their first use."""

from continual_learning.sweeps.grid import Grid
from continual_learning.sweeps.launch import choose, ranking, resume, run
from continual_learning.sweeps.selection import Ranked, Ranking
from continual_learning.sweeps.sweep import Setup, Sweep, read

__all__ = [
    "Grid",
    "Ranked",
    "Ranking",
    "Setup",
    "Sweep",
    "choose",
    "ranking",
    "read",
    "resume",
    "run",
]
