"""Weight clipping (Elsayed, Lan, Lyle & Mahmood, 2024)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax

from continual_learning.optim import every_step, trees
from continual_learning.optim.every_step import Arrays, per_copy
from continual_learning.optim.links import Kernel
from continual_learning.optim.method import (
    Initial,
    Number,
    ResetMethod,
    check_range,
    choice,
    reset_method,
)
from continual_learning.optim.units import UnitGraph


@reset_method
class WeightClipping(ResetMethod):
    """Clips weights and biases after every step: W ← clip(W, −κs, κs), with a bound s per layer.

    s is the bound of the uniform distribution of a layer's initial weights; a bias has the bound of
    its kernel. Scales and offsets of norms are left alone. The defaults are those of the authors'
    code (Mohamed Elsayed, Qingfeng Lan, Clare Lyle and A. Rupam Mahmood, Reinforcement Learning
    Journal 5, 2024, arXiv:2407.01704), except for `bound`.

    Attributes:
      kappa: κ. The authors choose among 1, 2, 3, 4 and 5.
      bound: "fan_in" is 1/√fan_in as in the authors' code, which is right for PyTorch's initial
        weights. "initial" is √3 times the standard deviation of the kernel that the first
        optimizer's `init` received, the bound of the uniform distribution with this deviation, but
        at least 1/√fan_in, so that layers that begin near zero can grow.
      clip_output: whether output layers are clipped, too.
    """

    kappa: Number = 1.0
    bound: str = choice("initial", "initial", "fan_in")
    clip_output: bool = choice(True)

    resets: ClassVar[bool] = False

    def __post_init__(self):
        super().__post_init__()
        check_range(self, kappa=(0, np.inf))

    def wrap(
        self, tx: optax.GradientTransformation, units: Callable[[Any], UnitGraph]
    ) -> optax.GradientTransformation:
        """Return the inner optimizer with clipping after its step."""

        def start(params: Any) -> Initial:
            kernels, leaves = self._clipped(units(params)), trees.arrays(params)
            return Initial(every_step.flat(self._bounds(k, leaves[k.param]) for k in kernels))

        def project(state: Initial, params: Any, after: Arrays) -> Arrays:
            kernels = self._clipped(units(params))
            copies = [_copies(k, after[k.param].shape) for k in kernels]
            bounds = every_step.cut(state.value, copies)
            new: dict[str, jax.Array] = {}
            for kernel, bound in zip(kernels, bounds, strict=True):
                w = after[kernel.param]
                new[kernel.param] = _clip(w, self.kappa * per_copy(bound, kernel.copies, w.shape))
                if kernel.bias is not None:
                    b = after[kernel.bias]  # [*copies, *outputs]
                    own = tuple(range(len(kernel.copies)))
                    new[kernel.bias] = _clip(b, self.kappa * per_copy(bound, own, b.shape))
            return new

        return every_step.projected(tx, start, project)

    def _clipped(self, graph: UnitGraph) -> list[Kernel]:
        return list(graph.kernels) if self.clip_output else every_step.hidden(graph)

    def _bounds(self, kernel: Kernel, w: jax.Array) -> jax.Array:
        """Return s for every copy of a kernel."""
        least = np.sqrt(1 / every_step.fan_in(kernel, w.shape))
        if self.bound == "fan_in":
            return jnp.full(_copies(kernel, w.shape), least, every_step.wide(w).dtype)
        std = jnp.std(every_step.matrices(kernel, w), axis=(1, 2))
        return jnp.maximum(np.sqrt(3) * std, least)

    def due(self, state: tuple[()], t: jax.Array) -> jax.Array:
        """Return False."""
        return jnp.zeros((), bool)


def _copies(kernel: Kernel, shape: tuple[int, ...]) -> int:
    return int(np.prod([shape[a] for a in kernel.copies]))


def _clip(w: jax.Array, bound: jax.Array) -> jax.Array:
    return jnp.clip(every_step.wide(w), -bound, bound)
