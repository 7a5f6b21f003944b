"""Binary resets of the units whose score is low within their layer, for ReDo and ReGraMa."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp

from continual_learning.optim.method import Amount, Number
from continual_learning.optim.scores import lowest, normalized
from continual_learning.optim.units import UnitGraph

Shared = Literal["zeroed", "redrawn"]
"""The end of an entry between two units that are both reset."""

EPS = 1e-9


def below_threshold(
    graph: UnitGraph, score: jax.Array, threshold: Number, fraction: Number | None
) -> Amount:
    """Reset the units whose score is at most `threshold` times the mean of their layer.

    Args:
      graph: the units.
      score: [layers, width].
      threshold: [].
      fraction: the largest share of a layer that is reset, lowest first; None for no limit.
    """
    score = normalized(graph, score, EPS)
    low = (score <= threshold) & graph.valid
    if fraction is not None:
        limit = jnp.floor(fraction * graph.sizes[:, None])
        low = lowest(score, limit, low)
    return Amount(low.astype(score.dtype), score, threshold)
