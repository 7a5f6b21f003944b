"""Brax's robots on ground that changes, with the extra `brax`."""

import warnings

from continual_learning import installation

try:
    with warnings.catch_warnings():
        # JAXopt, which Brax imports, says that it is no longer maintained.
        warnings.simplefilter("ignore", DeprecationWarning)
        from continual_learning.envs.robots.ant import Ant
        from continual_learning.envs.robots.humanoid import Humanoid
        from continual_learning.envs.robots.planar import HalfCheetah, Hopper, Walker2d
        from continual_learning.envs.robots.robot import BRAX_SOLVER, UNROLLED_SOLVER, Robot, Solver
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"The robots need {error.name}: {installation.command('brax')}.", name=error.name
    ) from None

ROBOTS: dict[str, type[Robot]] = {
    "ant": Ant,
    "humanoid": Humanoid,
    "half_cheetah": HalfCheetah,
    "hopper": Hopper,
    "walker2d": Walker2d,
}
"""Robots by the names that experiments give them."""

__all__ = [
    "BRAX_SOLVER",
    "ROBOTS",
    "UNROLLED_SOLVER",
    "Ant",
    "HalfCheetah",
    "Hopper",
    "Humanoid",
    "Robot",
    "Solver",
    "Walker2d",
]
