"""The inner optimizer without resets, for comparison."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp

from continual_learning.optim.method import ResetMethod, reset_method


@reset_method
class NoReset(ResetMethod):
    """The inner optimizer alone, with the same log as any other method."""

    resets: ClassVar[bool] = False

    def due(self, state: tuple[()], t: jax.Array) -> jax.Array:
        """Return False."""
        return jnp.zeros((), bool)
