"""L2 Init (Kumar, Marklund & Van Roy, 2023)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax

from continual_learning.optim import every_step, trees
from continual_learning.optim.method import Initial, Number, ResetMethod, check_range, reset_method
from continual_learning.optim.units import UnitGraph


@reset_method
class L2Init(ResetMethod):
    """Regularizes all parameters toward their initial values: g ← g + λ(θ − θ₀).

    A parameter to which the loss is insensitive drifts back to its initial value, ready to learn
    again. This is the gradient of (λ/2)‖θ − θ₀‖², as in the code of the authors (Saurabh Kumar,
    Henrik Marklund and Benjamin Van Roy, 2023, arXiv:2308.11958; their paper writes λ‖θ − θ₀‖²).
    θ₀ are the parameters that the first optimizer's `init` received.

    Attributes:
      strength: λ. The authors choose among 1e-2, 1e-3, 1e-4 and 1e-5.
    """

    strength: Number = 1e-2

    resets: ClassVar[bool] = False

    def __post_init__(self):
        super().__post_init__()
        check_range(self, strength=(0, np.inf))

    def wrap(
        self, tx: optax.GradientTransformation, units: Callable[[Any], UnitGraph]
    ) -> optax.GradientTransformation:
        """Return the inner optimizer with λ(θ − θ₀) added to its gradients."""
        del units

        def start(params: Any) -> Initial:
            return Initial(jax.tree.map(jnp.array, params))

        def gradient(state: Initial, params: Any) -> tuple[Initial, dict[str, jax.Array]]:
            initial = trees.arrays(state.value)
            return state, {
                path: self.strength * (every_step.wide(p) - initial[path])
                for path, p in trees.arrays(params).items()
            }

        return every_step.penalized(tx, start, gradient)

    def due(self, state: tuple[()], t: jax.Array) -> jax.Array:
        """Return False."""
        return jnp.zeros((), bool)
