"""ReDo: recycling dormant neurons (Sokar et al., 2023)."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.optim.method import (
    Amount,
    Number,
    ResetMethod,
    Step,
    check_range,
    periodic,
    reset_method,
)
from continual_learning.optim.rewrite import Outgoing
from continual_learning.optim.scores import feature_means, lowest, normalised
from continual_learning.optim.units import UnitGraph

EPS = 1e-9


@reset_method
class ReDo(ResetMethod):
    """Every `every` steps, replaces the units whose mean |feature| is at most `threshold`.

    Needs `features={layer: [batch, *positions, units]}` in `update`.

    Attributes:
      threshold: τ, relative to the layer's mean.
      every: f, steps between resets.
      max_reset_fraction: at most floor(fraction · size) units of a layer, lowest first.
    """

    threshold: Number
    every: Number
    max_reset_fraction: Number | None = None

    requires: ClassVar[tuple[str, ...]] = ("features",)
    outgoing: ClassVar[Outgoing] = "after"

    def __post_init__(self):
        super().__post_init__()
        check_range(self, threshold=(0, np.inf), every=(1, np.inf), max_reset_fraction=(0, 1))

    def due(self, state: tuple[()], t: jax.Array) -> jax.Array:
        """Every `every` steps, not in the first."""
        return periodic(t, self.every)

    def amount(self, graph: UnitGraph, state: tuple[()], step: Step) -> Amount:
        """1 for dormant units."""
        dtype = jnp.result_type(jnp.float32, *step.features.values())
        _, magnitude = feature_means(graph, step.features, dtype)
        return below_threshold(graph, magnitude, self.threshold, self.max_reset_fraction)


def below_threshold(
    graph: UnitGraph, score: jax.Array, threshold: Number, fraction: Number | None
) -> Amount:
    """Binary resets of the units whose score, over the mean of their layer, is ≤ `threshold`.

    Args:
      graph: the units.
      score: [layers, width].
      threshold: [].
      fraction: at most this share of a layer, lowest first; None for no limit.
    """
    score = normalised(graph, score, EPS)
    low = (score <= threshold) & graph.valid
    if fraction is not None:
        limit = jnp.floor(fraction * graph.sizes[:, None])
        low = lowest(score, limit, low)
    return Amount(low.astype(score.dtype), score, threshold)
