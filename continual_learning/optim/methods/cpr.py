"""Calibrated Partial Resets."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from continual_learning.optim import rewrite
from continual_learning.optim.method import (
    Amount,
    Number,
    Params,
    ResetMethod,
    Step,
    check_range,
    choice,
    periodic,
    reset_method,
)
from continual_learning.optim.scores import gradient_magnitude, normalized
from continual_learning.optim.shapes import SHAPES, phi
from continual_learning.optim.units import UnitGraph

Score = Literal["batch_gradient", "per_sample"]

_EPS = 1e-8


class CPRState(NamedTuple):
    """State of CPR: `utility` [layers, width] is the moving average u, 1 after every reset."""

    utility: jax.Array


@reset_method
class CPR(ResetMethod):
    """Moves each unit toward a fresh one by r = ρ·φ(u), every `every` steps.

    The utility u is a moving average of the mean gradient magnitude of the unit's incoming
    entries, relative to its layer. Units below the layer's average are reset by ρ, a small
    share; units above it are reset less, the higher their utility is.

    Attributes:
      max_reset: ρ, the share by which a unit of low utility is reset.
      sharpness: κ, the speed with which φ falls above the center: 0 resets all units alike,
        infinity resets no unit above the center.
      decay: β of the moving average.
      every: f, steps between resets.
      shape: φ, one of "sigmoid", "exp", "softplus", "linear", or its number in this order (0 to 3),
        which may be traced.
      center: the utility up to which φ is 1.
      score: "batch_gradient", or "per_sample" for the mean of per-sample gradient norms, given to
        `update` as `sample_scores={layer: [units] or [batch, units]}`.
      reset_bias: whether biases (and norm scales and biases) move with their unit.
      reset_moments: whether the moments of reset entries shrink by (1−r).
      shrink_outgoing: whether outgoing entries shrink; else they are left alone.
      recenter: whether a reset sets all utilities to 1; else the moving average continues.
    """

    max_reset: Number = 0.015
    sharpness: Number = 16.0
    decay: Number = 0.99
    every: Number = 1000
    shape: str | Number = choice("sigmoid", *SHAPES, or_number=True)
    center: Number = 1.0
    score: Score = choice("batch_gradient", *get_args(Score))
    reset_bias: bool = choice(False)
    reset_moments: bool = choice(False)
    shrink_outgoing: bool = choice(True)
    recenter: bool = choice(True)

    def __post_init__(self):
        super().__post_init__()
        check_range(self, max_reset=(0, 1), sharpness=(0, np.inf), decay=(0, 1), every=(1, np.inf))
        if not _is_shape(self.shape):
            raise ValueError(
                f"CPR: shape must be one of {list(SHAPES)}, or its number in this list; "
                f"got {self.shape!r}."
            )

    @property
    def requires(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Per-sample scores if they are used: the gradients of a batch do not contain them."""
        return ("sample_scores",) if self.score == "per_sample" else ()

    def start(self, graph: UnitGraph, dtype: Any) -> CPRState:
        """Return a state in which all utilities are 1."""
        return CPRState(jnp.ones(graph.shape, dtype))

    def observe(self, graph: UnitGraph, state: CPRState, step: Step) -> tuple[CPRState, jax.Array]:
        """Return the moving average of the normalized score, and which layers were finite.

        A layer that is not finite keeps its utilities.
        """
        dtype = state.utility.dtype
        if self.score == "per_sample":
            score = graph.pack(step.sample_scores[name].astype(dtype) for name in graph.names)
        else:
            score = gradient_magnitude(graph, step.grads, dtype)
        finite = jnp.isfinite(graph.layer_mean(score))  # scores are at least 0: none cancel
        score = normalized(graph, score, _EPS)
        utility = self.decay * state.utility + (1 - self.decay) * score
        return CPRState(jnp.where(finite, utility, state.utility)), finite

    def due(self, state: CPRState, t: jax.Array) -> jax.Array:
        """Return whether `t` is a positive multiple of `every`."""
        return periodic(t, self.every)

    def amount(self, graph: UnitGraph, state: CPRState, step: Step) -> Amount:
        """Return ρ·φ(u)."""
        reset = self.max_reset * phi(self.shape, state.utility, self.sharpness, self.center)
        return Amount(reset, state.utility, self.center)

    def finish(self, state: CPRState, amount: Amount) -> CPRState:
        """Set all utilities to 1 if `recenter` is set."""
        return CPRState(jnp.ones_like(state.utility)) if self.recenter else state

    def rewrite(
        self, graph: UnitGraph, state: CPRState, params: Params, amount: Amount, fresh: Params
    ) -> dict[str, jax.Array]:
        """Shrink outgoing entries and mix incoming ones with ξ."""
        return rewrite.reset_units(
            graph, params, amount.reset, fresh, outgoing=self._outgoing, bias=self.reset_bias
        )

    def keep(self, graph: UnitGraph, amount: Amount) -> dict[str, jax.Array]:
        """Return the kept shares of moments, 1−r; {} for all of them without `reset_moments`."""
        if not self.reset_moments:
            return {}
        return rewrite.kept(graph, amount.reset, outgoing=self._outgoing, bias=self.reset_bias)

    @property
    def _outgoing(self) -> rewrite.Outgoing:
        return "before" if self.shrink_outgoing else "kept"


def _is_shape(shape: Any) -> bool:
    if isinstance(shape, str):
        return shape in SHAPES
    if isinstance(shape, Tracer):
        return jnp.issubdtype(shape.dtype, jnp.integer)
    number = np.asarray(shape)
    whole = np.issubdtype(number.dtype, np.integer)
    return bool(whole and np.all((number >= 0) & (number < len(SHAPES))))
