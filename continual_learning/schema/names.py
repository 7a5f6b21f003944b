"""The names that files and flags may give, each list once.

They lie below everything else, so that a description needs nothing that it names.
"""

from __future__ import annotations

from typing import Literal, get_args

Activation = Literal["relu", "swish", "tanh", "gelu"]
"""Of hidden layers: `networks.mlp.ACTIVATIONS` has the functions."""

Init = Literal["he_uniform", "he_normal", "lecun_uniform", "lecun_normal", "glorot_uniform"]
"""Of kernels: `optim.fresh.INITIALIZERS` has the functions."""

DatasetName = Literal["mnist", "digits"]
"""Where the images of a stream come from."""

StreamKind = Literal["permuted", "split", "class_incremental", "random_labels"]
"""What a task of images is."""

RobotName = Literal["ant", "humanoid", "half_cheetah", "hopper", "walker2d"]
"""Who is controlled: `envs.robots.ROBOTS` has the classes."""

Engine = Literal["generalized", "mjx", "unrolled"]
"""Engines of the physics of robots."""

Friction = Literal["applied", "as_released"]
"""Where a task's friction acts: in all contacts, or as in the released code of the paper."""

Precision = Literal["float32", "default"]
"""Of matrix products within the physics of robots."""

ToldDelays = Literal["one_hot", "scalar", "none", "blind"]
"""What an agent is told of its delays."""

Restart = Literal["first", "fresh"]
"""In which states episodes begin."""

Goal = Literal["shown", "hidden"]
"""Whether MetaWorld's observations have the goal."""

Goals = Literal["fresh", "fixed"]
"""When MetaWorld draws goals."""

Nonfinite = Literal["refuse", "end"]
"""What a reward or an observation that is not finite does."""

Game = Literal["space_invaders", "asterix", "seaquest", "breakout", "freeway"]
GAMES: tuple[Game, ...] = get_args(Game)
"""The games of MinAtar: `envs.minatar.GAMES` has them."""
