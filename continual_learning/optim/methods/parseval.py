"""Parseval regularization (Chung, Cherif, Meger & Precup, 2024)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax

from continual_learning.optim import every_step, trees
from continual_learning.optim.method import Number, ResetMethod, check_range, reset_method
from continual_learning.optim.units import UnitGraph


@reset_method
class Parseval(ResetMethod):
    """Regularizes the kernels of hidden layers toward orthogonal rows: loss + λ Σ ‖WWᵀ − sI‖²_F.

    Orthogonal kernels pass on gradients of all directions with the same length. W is [outputs,
    inputs]; its gradient is 4λ(WWᵀ − sI)W. Output layers are left alone. The method is that of
    Wesley Chung, Lynn Cherif, David Meger and Doina Precup (NeurIPS 2024, arXiv:2412.07224); the
    defaults are those of their code for networks of 64 units a layer.

    Attributes:
      strength: λ. The authors use 1e-3, and 1e-4 on some streams.
      scale: s, the squared length of the rows: the square of the gain of an orthogonal
        initialization, which is √2 in the authors' networks.
    """

    strength: Number = 1e-3
    scale: Number = 2.0

    resets: ClassVar[bool] = False

    def __post_init__(self):
        super().__post_init__()
        check_range(self, strength=(0, np.inf), scale=(0, np.inf))

    def wrap(
        self, tx: optax.GradientTransformation, units: Callable[[Any], UnitGraph]
    ) -> optax.GradientTransformation:
        """Return the inner optimizer with 4λ(WWᵀ − sI)W added to its gradients."""

        def gradient(state: tuple[()], params: Any) -> tuple[tuple[()], dict[str, jax.Array]]:
            leaves, added = trees.arrays(params), {}
            for kernel in every_step.hidden(units(params)):
                shape = leaves[kernel.param].shape
                w = every_step.matrices(kernel, leaves[kernel.param])  # [copies, outputs, inputs]
                excess = w @ w.mT - self.scale * jnp.eye(w.shape[1], dtype=w.dtype)[None]
                added[kernel.param] = every_step.like_kernel(
                    kernel, 4 * self.strength * (excess @ w), shape
                )
            return state, added

        return every_step.penalized(tx, lambda _: (), gradient)

    def due(self, state: tuple[()], t: jax.Array) -> jax.Array:
        """Return False."""
        return jnp.zeros((), bool)
