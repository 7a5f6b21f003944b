"""The names that files and flags may give.

This module imports no other part, so that a description needs none of the things that it names.
"""

from __future__ import annotations

from typing import Literal, get_args

Activation = Literal["relu", "swish", "tanh", "gelu", "crelu"]
"""Activations of hidden layers; `networks.mlp.ACTIVATIONS` has the functions."""

Init = Literal["he_uniform", "he_normal", "lecun_uniform", "lecun_normal", "glorot_uniform"]
"""Initializers of kernels; `optim.fresh.INITIALIZERS` has the functions."""

DatasetName = Literal["mnist", "digits"]
"""Datasets of the images of a stream."""

StreamKind = Literal["permuted", "split", "class_incremental", "random_labels"]
"""Streams of image tasks, which differ in how a task is made."""

RobotName = Literal["ant", "humanoid", "half_cheetah", "hopper", "walker2d"]
"""The robots; `envs.robots.ROBOTS` has the classes."""

Engine = Literal["generalized", "mjx", "unrolled"]
"""Engines of the physics of robots."""

Friction = Literal["applied", "as_released"]
"""Where a task's friction acts: in all contacts, or as in the paper's released code."""

Precision = Literal["float32", "default"]
"""Precisions of matrix products within the physics of robots."""

ToldDelays = Literal["one_hot", "scalar", "none", "blind"]
"""How an agent is told of its delays."""

Restart = Literal["first", "fresh"]
"""The states in which episodes begin."""

Goal = Literal["shown", "hidden"]
"""Whether MetaWorld's observations contain the goal."""

Goals = Literal["fresh", "fixed"]
"""When MetaWorld draws goals."""

Nonfinite = Literal["refuse", "end"]
"""The consequence of a reward or an observation that is not finite."""

Game = Literal["space_invaders", "asterix", "seaquest", "breakout", "freeway"]
GAMES: tuple[Game, ...] = get_args(Game)
"""The games of MinAtar; `envs.minatar.GAMES` has their functions."""
