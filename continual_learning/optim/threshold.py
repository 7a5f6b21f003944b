"""Binary resets of the units whose score is low within their layer, as ReDo and ReGraMa make."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp

from continual_learning.optim.method import Amount, Number
from continual_learning.optim.scores import lowest, normalised
from continual_learning.optim.units import UnitGraph

Shared = Literal["zeroed", "redrawn"]
"""What becomes of an entry between two units that are both reset."""

EPS = 1e-9


def below_threshold(
    graph: UnitGraph, score: jax.Array, threshold: Number, fraction: Number | None
) -> Amount:
    """Reset the units whose score, over the mean of their layer, is at most `threshold`.

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
