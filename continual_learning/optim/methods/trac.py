"""TRAC: a parameter-free regularizer around any optimizer (Muppidi, Zhang & Yang, 2024)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from continual_learning.optim.erfi import erfi
from continual_learning.optim.method import (
    Initial,
    Number,
    ResetMethod,
    check_range,
    choice,
    numbers,
    reset_method,
)
from continual_learning.optim.units import UnitGraph

BETAS = (0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999)


class Tuner(NamedTuple):
    """The scale of the way from the reference, and the sums from which it is computed.

    Attributes:
      reference: θ_ref, a tree like the parameters.
      way: Δ, likewise; the parameters are θ_ref + max(S, 0)·Δ.
      s: [betas], whose sum is S.
      sigma: [betas], discounted sums of −h.
      variance: [betas], discounted sums of h².
    """

    reference: Any
    way: Any
    s: jax.Array
    sigma: jax.Array
    variance: jax.Array


class TRACState(NamedTuple):
    """State of an optimizer with TRAC.

    Attributes:
      inner: state of the inner optimizer.
      tuner: a `Tuner`, which stays when an agent makes a new optimizer.
    """

    inner: Any
    tuner: Initial


@reset_method
class TRAC(ResetMethod):
    """Scales the way from the initial weights by a number that online learning tunes.

    Where descent leads back to the initial weights θ_ref, the scale S shrinks, as by a strong
    regularization; where it leads on, S grows, exponentially at first. With the step v of the inner
    optimizer, the gradient g and h = ⟨g, Δ⟩, before v is added,

        Δ ← Δ·S/(S + eps) + v (0 + v if S ≤ 0),  θ = θ_ref + max(S, 0)·Δ,  S = Σ_β s
        s = s_prev / erfi(1/√2) · erfi(σ / (√(2V) + eps)),  σ ← β·σ − h,  V ← β²·V + h²

    (Muppidi, Zhang & Yang, NeurIPS 2024, arXiv:2405.16642; names and defaults of their code.)

    Attributes:
      s_prev: the scale with which training begins.
      eps: keeps divisions finite.
      betas: the discounts.
    """

    s_prev: Number = 1e-8
    eps: Number = 1e-8
    betas: tuple[float, ...] = choice(BETAS)

    resets: ClassVar[bool] = False

    def __post_init__(self):
        super().__post_init__()
        check_range(self, s_prev=(0, np.inf), eps=(0, np.inf))
        valid = isinstance(self.betas, tuple) and all(0 <= beta <= 1 for beta in self.betas)
        if not (valid and self.betas):
            raise ValueError(f"TRAC: betas must be a tuple of shares, got {self.betas!r}.")

    def due(self, state: tuple[()], t: jax.Array) -> jax.Array:
        """Return False."""
        return jnp.zeros((), bool)

    def wrap(
        self, tx: optax.GradientTransformation, units: Callable[[Any], UnitGraph]
    ) -> optax.GradientTransformation:
        """Return the inner optimizer with the tuned scale."""
        tx = optax.with_extra_args_support(tx)

        def init(params: Any) -> TRACState:
            zero = jnp.zeros(len(self.betas), _dtype(params))
            way = jax.tree.map(lambda p: jnp.zeros(p.shape, _dtype(p)), params)
            # A copy, since the parameters may be donated.
            reference = jax.tree.map(jnp.copy, params)
            tuner = Tuner(reference, way, zero, jnp.full_like(zero, 1e-8), zero)
            return TRACState(tx.init(params), Initial(tuner))

        def update(
            updates: Any, state: Any, params: Any = None, **extra: Any
        ) -> tuple[Any, TRACState]:
            grads, old = updates, state.tuner.value
            method: Any = numbers(self, old.s.dtype)
            updates, inner = tx.update(updates, state.inner, params, **extra)
            total = jnp.sum(old.s)
            back = jnp.where(total > 0, total / (total + method.eps), 0)
            # From here on, `way` is what the authors' code computes as (θ − θ_ref) / (S + eps),
            # which in float32 is nearly nothing but rounding while S is small.
            way = jax.tree.map(lambda d: (back * d).astype(d.dtype), old.way)
            h = _dot(grads, way, total.dtype)
            betas = jnp.array(self.betas, total.dtype)
            variance = betas**2 * old.variance + h**2
            sigma = betas * old.sigma - h
            root = jnp.sqrt(jnp.asarray(2, total.dtype))
            s = erfi(sigma / (root * jnp.sqrt(variance) + method.eps))
            s = method.s_prev / erfi(1 / root) * s
            scale = jnp.maximum(jnp.sum(s), 0)
            way = jax.tree.map(lambda d, v: d + v.astype(d.dtype), way, updates)

            def step(p: jax.Array, reference: jax.Array, d: jax.Array) -> jax.Array:
                return (reference + scale * d - p).astype(p.dtype)

            steps = jax.tree.map(step, params, old.reference, way)
            tuner = Tuner(old.reference, way, s, sigma, variance)
            return steps, TRACState(inner, Initial(tuner))

        return optax.GradientTransformationExtraArgs(init, update)


def _dtype(tree: Any) -> Any:
    return jnp.result_type(jnp.float32, *jax.tree.leaves(tree))


def _dot(a: Any, b: Any, dtype: Any) -> jax.Array:
    """Return ⟨a, b⟩ of two trees."""
    products = jax.tree.map(lambda x, y: jnp.sum(x * y, dtype=dtype), a, b)
    return sum(jax.tree.leaves(products), jnp.zeros((), dtype))
