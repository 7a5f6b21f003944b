"""ReGraMa: resets guided by gradient magnitude (Liu et al., 2025)."""

from __future__ import annotations

from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.optim.method import (
    Amount,
    Number,
    ResetMethod,
    Step,
    check_range,
    choice,
    periodic,
    reset_method,
)
from continual_learning.optim.rewrite import Outgoing
from continual_learning.optim.scores import gradient_magnitude
from continual_learning.optim.threshold import Shared, below_threshold
from continual_learning.optim.units import UnitGraph


@reset_method
class ReGraMa(ResetMethod):
    """Replaces the units whose mean |gradient| is at most `threshold`, every `every` steps.

    The defaults are those that the CPR paper selected on SlipperyAnt.

    Attributes:
      threshold: τ, relative to the layer's mean, for the gradients of the current batch.
      every: f, steps between resets.
      max_reset_fraction: limits a reset to floor(fraction · size) units of a layer, lowest first.
      zero_outgoing: whether outgoing entries are zeroed; the method's authors leave them alone.
      shared: whether an entry between two units that are both reset ends "zeroed" or "redrawn", as
        in the code of the CPR paper; without `zero_outgoing` it is redrawn.
      reset_moments: whether the moments of reset entries restart at zero.
    """

    threshold: Number = 0.25
    every: Number = 100
    max_reset_fraction: Number | None = None
    zero_outgoing: bool = choice(True)
    shared: Shared = choice("zeroed", *get_args(Shared))
    reset_moments: bool = choice(True)

    def __post_init__(self):
        super().__post_init__()
        check_range(self, threshold=(0, np.inf), every=(1, np.inf), max_reset_fraction=(0, 1))

    @property
    def outgoing(self) -> Outgoing:  # pyright: ignore[reportIncompatibleVariableOverride]
        """When outgoing entries shrink: the last operation decides about shared entries."""
        if not self.zero_outgoing:
            return "kept"
        return "after" if self.shared == "zeroed" else "before"

    def due(self, state: tuple[()], t: jax.Array) -> jax.Array:
        """Return whether `t` is a positive multiple of `every`."""
        return periodic(t, self.every)

    def amount(self, graph: UnitGraph, state: tuple[()], step: Step) -> Amount:
        """Return 1 for units with a low gradient magnitude, 0 for others."""
        dtype = jnp.result_type(jnp.float32, *step.grads.values())
        score = gradient_magnitude(graph, step.grads, dtype)
        return below_threshold(graph, score, self.threshold, self.max_reset_fraction)

    def keep(self, graph: UnitGraph, amount: Amount) -> dict[str, jax.Array]:
        """Return the shares of moments to keep: none for reset entries, or {} for all."""
        return super().keep(graph, amount) if self.reset_moments else {}
