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
    """Shrinks all kernels and adds noise every `every` steps: θ ← (1−shrink)·θ + perturb·fresh.

    The output layer's kernel is among them; biases only shrink, norm scales stay as they are. The
    defaults are those that the CPR paper selected on SlipperyAnt; the method of Ash & Adams (2020,
    arXiv:1910.08475) acts when new data arrive, and so has no `every`.

    Attributes:
      shrink: the share that is removed.
      perturb: the share of a fresh draw that is added.
      every: steps between resets; with 1 the method acts in every step.
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
        """Return whether `t + 1` is a multiple of `every`."""
        return (t + 1) % self.every == 0

    def amount(self, graph: UnitGraph, state: tuple[()], step: Step) -> Amount:
        """Return the same amount for all units, which have no utility here."""
        reset = jnp.full(graph.shape, self.shrink)
        return Amount(reset, jnp.ones_like(reset))

    def rewrite(
        self, graph: UnitGraph, state: tuple[()], params: Params, amount: Amount, fresh: Params
    ) -> dict[str, jax.Array]:
        """Shrink and perturb the kernels, and shrink the biases."""

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
        """Return {}, so that moments stay as they are."""
        return {}

    def drawn(self, graph: UnitGraph) -> list[str]:
        """Return the paths of all kernels."""
        return [k.param for k in graph.kernels]
