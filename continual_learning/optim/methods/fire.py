"""FIRE: Frobenius-isometry reinitialization (Han et al., 2026)."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.optim.links import Kernel
from continual_learning.optim.method import (
    Amount,
    Number,
    Params,
    Step,
    check_range,
    choice,
    reset_method,
)
from continual_learning.optim.occasions import Occasion, Occasional
from continual_learning.optim.units import UnitGraph


@reset_method
class FIRE(Occasional):
    """Replaces every kernel by the isometry that is nearest to it.

    Weights with equal singular values learn well (plasticity), and of all of these the nearest
    ones keep the most of earlier tasks (stability): W ← s·W(WᵀW)^(-1/2) minimizes ‖W̃ − W‖_F among
    the W̃ with W̃ᵀW̃ = I, before the scale s = √(outputs / inputs) / (entries of the receptive
    field). The Newton–Schulz iteration X ← 1.5X − 0.5·XXᵀX from X = W / ‖W‖_F approximates it, for
    each position of a conv kernel alone (Han et al., 2026, arXiv:2602.08040). Biases and norms
    stay as they are. The scale, the iteration and the default are those of the authors' code.

    Attributes:
      every: steps between two acts; None acts in the first step of every task but the first.
      iterations: of Newton–Schulz; the authors use 10, and 5 for language models.
      reset_moments: whether the moments of the kernels restart at zero.
    """

    iterations: Number = 10
    reset_moments: bool = choice(True)

    def __post_init__(self):
        super().__post_init__()
        check_range(self, iterations=(0, np.inf))

    def amount(self, graph: UnitGraph, state: Occasion, step: Step) -> Amount:
        """Return 1 for all units, which have no utility here."""
        return Amount(jnp.ones(graph.shape), jnp.ones(graph.shape))

    def rewrite(
        self, graph: UnitGraph, state: Occasion, params: Params, amount: Amount, fresh: Params
    ) -> dict[str, jax.Array]:
        """Return the isometries of all kernels."""
        return {k.param: self._isometry(k, params[k.param]) for k in graph.kernels}

    def keep(self, graph: UnitGraph, amount: Amount) -> dict[str, jax.Array]:
        """Return the shares of moments to keep: none for kernels, or {} for all."""
        return {k.param: jnp.zeros(()) for k in graph.kernels} if self.reset_moments else {}

    def drawn(self, graph: UnitGraph) -> list[str]:
        """Return the paths of all kernels, so that a network without hidden units is changed."""
        return [k.param for k in graph.kernels]

    def _isometry(self, kernel: Kernel, w: jax.Array) -> jax.Array:
        order = (*kernel.copies, *kernel.spatial, *kernel.inputs, *kernel.outputs)
        inputs, outputs, field = (
            math.prod(w.shape[a] for a in axes)
            for axes in (kernel.inputs, kernel.outputs, kernel.spatial)
        )
        x = w.astype(jnp.promote_types(w.dtype, jnp.float32)).transpose(order)
        matrices = x.reshape(-1, inputs, outputs)
        scale = math.sqrt(outputs / inputs) / field
        new = scale * newton_schulz(matrices, self.iterations)
        return new.reshape(x.shape).transpose(np.argsort(order)).astype(w.dtype)


def newton_schulz(matrices: jax.Array, iterations: Number) -> jax.Array:
    """Return approximately the nearest isometries to matrices; a matrix of zeros stays.

    Args:
      matrices: [..., rows, columns].
      iterations: their number; singular values below about 1.5^-iterations of the norm stay small.
    """
    exact = functools.partial(jnp.matmul, precision="highest")  # not TF32
    tall = matrices.shape[-2] >= matrices.shape[-1]
    x = matrices if tall else matrices.swapaxes(-1, -2)
    norm = jnp.sqrt(jnp.sum(x * x, axis=(-2, -1), keepdims=True))
    x = x / jnp.where(norm == 0, 1, norm)

    def step(_: jax.Array, x: jax.Array) -> jax.Array:
        return 1.5 * x - 0.5 * exact(x, exact(x.swapaxes(-1, -2), x))

    x = jax.lax.fori_loop(0, jnp.asarray(iterations, jnp.int32), step, x)
    return x if tall else x.swapaxes(-1, -2)
