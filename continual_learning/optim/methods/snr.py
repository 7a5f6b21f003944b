"""Self-Normalized Resets (Farias & Jozefiak, 2025)."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.optim.branch import when
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
from continual_learning.optim.scores import normalized
from continual_learning.optim.units import UnitGraph


class SNRState(NamedTuple):
    """State of SNR.

    Attributes:
      age: int32 [layers, width], steps since a unit last fired or was reset.
      threshold: [layers, width], the age τ at which a unit is reset.
      times: int32 [layers, width, tau_max], the number of times that a unit had the age 1, 2, …
        when it fired or was reset, since the thresholds were last estimated.
    """

    age: jax.Array
    threshold: jax.Array
    times: jax.Array


@reset_method
class SNR(ResetMethod):
    """Replaces the units that have not fired for longer than their own past makes likely.

    A unit fires in a step if one of its features is positive, and it is reset when it has not fired
    for τ steps. Every `threshold_reset_freq` steps, its τ is estimated anew from the distribution F
    of its inter-firing times since the last estimate:

        τ ← clip(q if q < τ else expansion_factor · τ, 1, tau_max),  q = min {a : F(a) ≥ percentile}

    The method is that of Farias & Jozefiak (ICLR 2025, arXiv:2410.20098), names and defaults are
    those of their code; it has no defaults for the times.

    `update` needs `features={layer: [batch, *positions, units]}`.

    Attributes:
      threshold: the first τ, for all units.
      threshold_percentile: the share of inter-firing times that τ must cover.
      threshold_expansion_factor: the growth of τ.
      threshold_reset_freq: steps between estimates of τ.
      tau_max: the largest τ that an estimate gives; the state holds this many integers per unit.
    """

    threshold: Number = 100
    threshold_percentile: Number = 0.99
    threshold_expansion_factor: Number = 2.0
    threshold_reset_freq: Number = 10_000
    tau_max: int = choice(1000)

    requires: ClassVar[tuple[str, ...]] = ("features",)

    def __post_init__(self):
        super().__post_init__()
        check_range(
            self,
            threshold=(1, np.inf),
            threshold_percentile=(0, 1),
            threshold_expansion_factor=(1, np.inf),
            threshold_reset_freq=(1, np.inf),
            tau_max=(1, np.inf),
        )

    def start(self, graph: UnitGraph, dtype: Any) -> SNRState:
        """Return a state in which no time has passed."""
        return SNRState(
            age=jnp.zeros(graph.shape, jnp.int32),
            threshold=jnp.full(graph.shape, self.threshold, dtype),
            times=jnp.zeros((*graph.shape, self.tau_max), jnp.int32),
        )

    def observe(self, graph: UnitGraph, state: SNRState, step: Step) -> tuple[SNRState, jax.Array]:
        """Estimate the thresholds if it is time, and record which units fire.

        The ages of a layer whose features are not finite stay as they are in this step.
        """
        due = periodic(step.t, self.threshold_reset_freq)
        numbers = self.threshold_percentile, self.threshold_expansion_factor
        state = when(due, _estimate, state, numbers)  # once for all lanes, and seldom

        given = [step.features[name] for name in graph.names]
        low = graph.pack(jnp.min(f, tuple(range(f.ndim - 1))) for f in given)
        # The padding fires in every step, so that it is never due.
        high = graph.pack((jnp.max(f, tuple(range(f.ndim - 1))) for f in given), fill=1)
        finite, fired = graph.layer_finite(low) & graph.layer_finite(high), high > 0
        times = _record(state.times, state.age, finite & fired)
        age = jnp.where(fired, 0, state.age + 1)
        return state._replace(age=jnp.where(finite, age, state.age), times=times), finite

    def due(self, state: SNRState, t: jax.Array) -> jax.Array:
        """Return whether a unit has reached its threshold."""
        return jnp.any(state.age >= state.threshold)

    def amount(self, graph: UnitGraph, state: SNRState, step: Step) -> Amount:
        """Return 1 for units that have reached their thresholds, 0 for others.

        The utility of a unit is the share of its threshold that is left.
        """
        left = jnp.maximum(1 - state.age / state.threshold, 0)
        reset = state.age >= state.threshold
        return Amount(reset.astype(left.dtype), normalized(graph, left, 1e-9))

    def finish(self, state: SNRState, amount: Amount) -> SNRState:
        """Record the ages of reset units, as if they had fired, and set them to 0."""
        gone = amount.reset > 0
        times = _record(state.times, state.age, gone)
        return state._replace(age=jnp.where(gone, 0, state.age), times=times)


def _record(times: jax.Array, age: jax.Array, ended: jax.Array) -> jax.Array:
    """Count the ages at which a wait ended; ages of 0 or beyond the last column do not count."""
    rows, columns = np.indices(age.shape)
    column = jnp.where(ended & (age > 0), age - 1, times.shape[-1])
    return times.at[rows, columns, column].add(1, mode="drop")


def _estimate(state: SNRState, numbers: tuple[Number, Number]) -> SNRState:
    """Return the state with new thresholds and without recorded times.

    Args:
      state: the state.
      numbers: percentile and expansion factor.
    """
    percentile, factor = numbers
    tau = state.threshold
    covered = jnp.cumsum(state.times, axis=-1)
    total = covered[..., -1:]
    share = covered.astype(tau.dtype) / jnp.maximum(total, 1).astype(tau.dtype)
    found = jnp.argmax(share >= percentile, axis=-1) + 1
    # A unit without a recorded time has fired in every step, or has waited since: τ becomes 1.
    found = jnp.where(total[..., 0] > 0, found, 0).astype(tau.dtype)
    tau = jnp.where(found < tau, found, factor * tau)
    tau = jnp.clip(tau, 1, state.times.shape[-1]).astype(state.threshold.dtype)
    return state._replace(threshold=tau, times=jnp.zeros_like(state.times))
