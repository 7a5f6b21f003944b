"""ReDo: recycling dormant neurons (Sokar et al., 2023)."""

from __future__ import annotations

from typing import ClassVar, get_args

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
from continual_learning.optim.scores import feature_means
from continual_learning.optim.threshold import Shared, below_threshold
from continual_learning.optim.units import UnitGraph


@reset_method
class ReDo(ResetMethod):
    """Replaces the units whose mean |feature| is at most `threshold`, every `every` steps.

    The defaults are those of its authors: τ = 0.1, every 1,000 updates (Sokar et al., 2023,
    arXiv:2302.12902; they use τ = 0.025 as well).

    `update` needs `features={layer: [batch, *positions, units]}`.

    Attributes:
      threshold: τ, relative to the layer's mean.
      every: f, steps between resets.
      max_reset_fraction: limits a reset to floor(fraction · size) units of a layer, lowest first.
      shared: whether an entry between two units that are both reset ends "zeroed", as in the
        method's own code, or "redrawn", as in the code of the CPR paper.
      reset_moments: whether the moments of reset entries restart at zero.
    """

    threshold: Number = 0.1
    every: Number = 1000
    max_reset_fraction: Number | None = None
    shared: Shared = choice("zeroed", *get_args(Shared))
    reset_moments: bool = choice(True)

    requires: ClassVar[tuple[str, ...]] = ("features",)

    def __post_init__(self):
        super().__post_init__()
        check_range(self, threshold=(0, np.inf), every=(1, np.inf), max_reset_fraction=(0, 1))

    @property
    def outgoing(self) -> Outgoing:  # pyright: ignore[reportIncompatibleVariableOverride]
        """When outgoing entries shrink: the last operation decides about shared entries."""
        return "after" if self.shared == "zeroed" else "before"

    def due(self, state: tuple[()], t: jax.Array) -> jax.Array:
        """Return whether `t` is a positive multiple of `every`."""
        return periodic(t, self.every)

    def amount(self, graph: UnitGraph, state: tuple[()], step: Step) -> Amount:
        """Return 1 for dormant units, 0 for others."""
        dtype = jnp.result_type(jnp.float32, *step.features.values())
        _, magnitude = feature_means(graph, step.features, dtype)
        return below_threshold(graph, magnitude, self.threshold, self.max_reset_fraction)

    def keep(self, graph: UnitGraph, amount: Amount) -> dict[str, jax.Array]:
        """Return the shares of moments to keep: none for reset entries, or {} for all."""
        return super().keep(graph, amount) if self.reset_moments else {}
