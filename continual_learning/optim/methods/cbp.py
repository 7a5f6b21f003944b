"""Continual Backprop (Dohare et al., 2024)."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.optim import rewrite
from continual_learning.optim.method import (
    Amount,
    Number,
    Params,
    ResetMethod,
    Step,
    check_range,
    choice,
    reset_method,
)
from continual_learning.optim.scores import contribution, feature_means, lowest, normalized
from continual_learning.optim.units import UnitGraph


class CBPState(NamedTuple):
    """State of CBP.

    Attributes:
      age: int32 [layers, width], steps since a unit was replaced.
      utility: [layers, width], the moving average u.
      mean_feature: [layers, width], the moving average f̄.
      pending: [layers, 1], the running sum of units to replace; a reset takes its integer part.
    """

    age: jax.Array
    utility: jax.Array
    mean_feature: jax.Array
    pending: jax.Array


@reset_method
class CBP(ResetMethod):
    """Replaces mature units of the lowest contribution utility at a constant rate.

    `update` needs `features={layer: [batch, *positions, units]}`.

    Attributes:
      replacement_rate: ρ, the share of mature units replaced per step.
      decay: η of the moving averages.
      maturity: m, the age that a unit must exceed to be replaced.
      accumulate: whether the fraction of a unit is carried to the next step; else it is the
        probability of one more unit.
      transfer_bias: whether the readers' biases take over a replaced unit's mean contribution.
      reset_moments: whether the moments of a replaced unit's entries restart at zero, as in the
        paper; else they are left alone, as in its author's PPO.
    """

    replacement_rate: Number = 1e-4
    decay: Number = 0.99
    maturity: Number = 100
    accumulate: bool = choice(True)
    transfer_bias: bool = choice(True)
    reset_moments: bool = choice(True)

    requires: ClassVar[tuple[str, ...]] = ("features",)

    def __post_init__(self):
        super().__post_init__()
        check_range(self, replacement_rate=(0, 1), decay=(0, 1), maturity=(0, np.inf))

    def start(self, graph: UnitGraph, dtype: Any) -> CBPState:
        """Return a state in which all numbers are 0."""
        units = jnp.zeros(graph.shape, dtype)
        pending = jnp.zeros((len(graph.layers), 1), dtype)
        return CBPState(jnp.zeros(graph.shape, jnp.int32), units, units, pending)

    def observe(self, graph: UnitGraph, state: CBPState, step: Step) -> tuple[CBPState, jax.Array]:
        """Advance ages, moving averages and `pending`, and return which layers were finite.

        Ages and averages of a layer that is not finite stay as they are in this step.
        """
        dtype = state.utility.dtype
        mean, magnitude = feature_means(graph, step.features, dtype)
        score = contribution(graph, step.params, step.features, dtype)
        # |f| is at least 0, so that a sum cancels no infinity; where |f| is finite, so is f.
        finite = jnp.isfinite(graph.layer_mean(magnitude + score))
        age = jnp.where(finite & graph.valid, state.age + 1, state.age)

        def average(old: jax.Array, new: jax.Array) -> jax.Array:
            return jnp.where(finite, self.decay * old + (1 - self.decay) * new, old)

        eligible = jnp.sum(age > self.maturity, axis=1, keepdims=True)
        replaced = self.replacement_rate * eligible
        if self.accumulate:
            pending = state.pending + replaced
        else:
            chance = jax.random.uniform(step.key, replaced.shape, dtype)
            pending = jnp.floor(replaced + chance)
        state = CBPState(
            age, average(state.utility, score), average(state.mean_feature, mean), pending
        )
        return state, finite

    def due(self, state: CBPState, t: jax.Array) -> jax.Array:
        """Return whether a layer has a whole unit to replace."""
        return jnp.any(state.pending >= 1)

    def amount(self, graph: UnitGraph, state: CBPState, step: Step) -> Amount:
        """Return 1 for the mature units of lowest bias-corrected utility, 0 for others."""
        utility = self.corrected(state, state.utility)
        chosen = lowest(utility, jnp.floor(state.pending), state.age > self.maturity)
        return Amount(chosen.astype(utility.dtype), normalized(graph, utility, 1e-9))

    def corrected(self, state: CBPState, average: jax.Array) -> jax.Array:
        """Return a moving average without its bias toward 0: average / (1 − η^age)."""
        weight = 1 - self.decay ** state.age.astype(average.dtype)
        return average / jnp.where(weight > 0, weight, 1)

    def finish(self, state: CBPState, amount: Amount) -> CBPState:
        """Set ages and averages of replaced units to 0, and keep the fraction of `pending`."""
        gone = amount.reset > 0
        return CBPState(
            jnp.where(gone, 0, state.age),
            jnp.where(gone, 0, state.utility),
            jnp.where(gone, 0, state.mean_feature),
            state.pending - jnp.floor(state.pending),
        )

    def rewrite(
        self, graph: UnitGraph, state: CBPState, params: Params, amount: Amount, fresh: Params
    ) -> dict[str, jax.Array]:
        """Transfer biases, zero outgoing entries and redraw incoming ones, in this order."""
        moved: dict[str, jax.Array] = {}
        if self.transfer_bias:
            mean = amount.reset * self.corrected(state, state.mean_feature)
            moved = rewrite.transferred_bias(graph, params, mean)
        return moved | rewrite.reset_units(graph, {**params, **moved}, amount.reset, fresh)

    def keep(self, graph: UnitGraph, amount: Amount) -> dict[str, jax.Array]:
        """Return the shares of moments to keep: none for replaced units, or {} for all."""
        return super().keep(graph, amount) if self.reset_moments else {}
