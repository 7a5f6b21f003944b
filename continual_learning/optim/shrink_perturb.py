"""Shrink & Perturb (Ash & Adams, 2020)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

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
from continual_learning.optim.units import UnitGraph


@reset_method
class ShrinkAndPerturb(ResetMethod):
    """Every `every` steps, θ ← (1−shrink)·θ + perturb·fresh.

    All kernels, the output layer's too; biases only shrink, norm scales stay as they are. The
    defaults are those that the CPR paper selected on SlipperyAnt; Ash & Adams (2020,
    arXiv:1910.08475) act when new data arrive, and so have no `every`.

    Attributes:
      shrink: the share that is removed.
      perturb: how much of a fresh draw is added.
      every: steps between resets; 1 acts on every step.
      kernels_only: whether biases are left alone.
    """

    shrink: Number = 1e-3
    perturb: Number = 5e-3
    every: Number = 1000
    kernels_only: bool = choice(False)

    def __post_init__(self):
        super().__post_init__()
        check_range(self, shrink=(0, 1), perturb=(0, np.inf), every=(1, np.inf))

    def due(self, state: tuple[()], t: jax.Array) -> jax.Array:
        """After every `every` steps."""
        return (t + 1) % self.every == 0

    def amount(self, graph: UnitGraph, state: tuple[()], step: Step) -> Amount:
        """The same for all units; it knows no utility."""
        reset = jnp.full(graph.shape, self.shrink)
        return Amount(reset, jnp.ones_like(reset))

    def rewrite(
        self, graph: UnitGraph, state: tuple[()], params: Params, amount: Amount, fresh: Params
    ) -> dict[str, jax.Array]:
        """Kernels shrink and are perturbed, biases shrink."""

        def shrunk(w: jax.Array) -> jax.Array:
            return (1 - self.shrink) * w

        new = {
            k.param: (shrunk(params[k.param]) + self.perturb * fresh[k.param]).astype(
                params[k.param].dtype
            )
            for k in graph.kernels
        }
        if not self.kernels_only:
            biases = [k.bias for k in graph.kernels if k.bias is not None]
            biases += [link.param for layer in graph.layers for link in layer.bias]
            new |= {p: shrunk(params[p]).astype(params[p].dtype) for p in biases}
        return new

    def keep(self, graph: UnitGraph, amount: Amount) -> dict[str, jax.Array]:
        """Moments stay as they are."""
        return {}

    def drawn(self, graph: UnitGraph) -> list[str]:
        """All kernels."""
        return [k.param for k in graph.kernels]
