"""C-CHAIN: a loss that also keeps small what an update changes on other data.

Churn is the change of a network's outputs, on data that an update did not use, through this update.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

Number = float | jax.Array
Distance = Callable[[Any, Any], jax.Array]


class ChurnState(NamedTuple):
    """The state of a loss with churn reduction; arrays only.

    Attributes:
      calls: int32 [], calls of the loss so far.
      previous: the parameters of the call before.
      coefficient: float [], λ of the next call.
      losses: float [window], the last magnitudes of the loss.
      churns: float [window], the last churns.
    """

    calls: jax.Array
    previous: Any
    coefficient: jax.Array
    losses: jax.Array
    churns: jax.Array


class ChurnAux(NamedTuple):
    """The values beside a loss with churn reduction.

    Attributes:
      state: the state for the next call.
      loss: float [], the loss alone.
      churn: float [], the churn alone.
      aux: the second result of the loss function with `has_aux`, else None.
    """

    state: ChurnState
    loss: jax.Array
    churn: jax.Array
    aux: Any


class ChurnReduction(NamedTuple):
    """A loss with churn reduction.

    Attributes:
      init: a function parameters -> state.
      loss: a function (parameters, state, reference, *args) -> (loss [], `ChurnAux`).
    """

    init: Callable[[Any], ChurnState]
    loss: Callable[..., tuple[jax.Array, ChurnAux]]


def mean_square(new: Any, old: Any) -> jax.Array:
    """Return the mean of (new − old)² over all entries of two trees of outputs, []."""
    pairs = list(zip(jax.tree.leaves(new), jax.tree.leaves(old), strict=True))
    total = sum(jnp.sum(jnp.square(a - b)) for a, b in pairs)
    return jnp.asarray(total) / max(1, sum(a.size for a, _ in pairs))


def reduce_churn(
    loss_fn: Callable[..., Any],
    apply_fn: Callable[[Any, Any], Any],
    *,
    coefficient: Number = 50.0,
    target: Number | None = 0.01,
    warmup: Number = 10_000,
    window: int = 50_000,
    distance: Distance = mean_square,
    has_aux: bool = False,
) -> ChurnReduction:
    """Return a loss that adds λ times the churn of the last update on a reference batch.

        churn = reduce_churn(loss, model.apply)
        state = churn.init(params)
        grad = jax.value_and_grad(churn.loss, has_aux=True)
        (value, aux), grads = grad(params, state, other, x, y)

    Here `other` is a reference batch, drawn apart from x and y, and `aux.state` goes into the next
    call. The loss is to be called once in every update:

        L(θ_t) + λ · mean (f(θ_t, reference) − f(θ_{t−1}, reference))²

    Its gradient works, at every update, against what the update before changed on other data; the
    churn of the first call is 0. With a `target` β, λ follows the loss: from call `warmup` it is β
    times the mean |loss| over the mean churn, both of the last `window` calls, so that the churn's
    share of the loss stays the same.

    The defaults are those of the authors' code for DQN, which adjusts λ in every update as well.

    Args:
      loss_fn: `(params, *args) -> loss`, or `-> (loss, aux)` with `has_aux`.
      apply_fn: `(params, reference) -> outputs` whose churn is reduced: Q-values, or the means of a
        policy's actions.
      coefficient: λ, the first one if there is a `target`.
      target: β, the share of the loss that the churn shall have; None keeps λ as it is.
      warmup: the number of the call, from 1, that adjusts λ for the first time.
      window: calls over which both means are taken.
      distance: `(outputs now, outputs before) -> []`; the authors have a cross-entropy for policies
        with discrete actions.
      has_aux: as in `jax.value_and_grad`.

    References:
      Tang et al., Mitigating Plasticity Loss in Continual Reinforcement Learning by Reducing Churn,
      ICML 2025 (arXiv 2506.00592).
    """
    if window < 1:
        raise ValueError(f"reduce_churn: window must be at least 1, got {window}.")
    for name, value in (("coefficient", coefficient), ("target", target), ("warmup", warmup)):
        if isinstance(value, int | float) and not value >= 0:
            raise ValueError(f"reduce_churn: {name} must be at least 0, got {value}.")

    def init(params: Any) -> ChurnState:
        dtype = jnp.result_type(jnp.float32, *jax.tree.leaves(params))
        return ChurnState(
            calls=jnp.zeros((), jnp.int32),
            # A copy, since a loop that donates its buffers must not donate the same one twice.
            previous=jax.tree.map(lambda w: jnp.array(w, copy=True), params),
            coefficient=jnp.asarray(coefficient, dtype),
            losses=jnp.zeros((window,), dtype),
            churns=jnp.zeros((window,), dtype),
        )

    def loss(
        params: Any, state: ChurnState, reference: Any, *args: Any
    ) -> tuple[jax.Array, ChurnAux]:
        result = loss_fn(params, *args)
        value, aux = result if has_aux else (result, None)
        before = jax.lax.stop_gradient(apply_fn(state.previous, reference))
        churn = distance(apply_fn(params, reference), before)
        # The parameters before the first call are unknown, whatever the distance makes of them.
        churn = jnp.where(state.calls > 0, churn, 0)
        total = value + state.coefficient.astype(value.dtype) * churn.astype(value.dtype)
        return total, ChurnAux(_next(params, state, value, churn), value, churn, aux)

    def _next(params: Any, state: ChurnState, value: jax.Array, churn: jax.Array) -> ChurnState:
        params, value, churn = jax.lax.stop_gradient((params, value, churn))
        dtype, place = state.losses.dtype, state.calls % window
        calls = state.calls + 1
        losses = state.losses.at[place].set(jnp.abs(value).astype(dtype))
        churns = state.churns.at[(state.calls - 1) % window].set(churn.astype(dtype))
        new = state.coefficient
        if target is not None:
            loss_mean = jnp.sum(losses) / jnp.minimum(calls, window)
            churn_mean = jnp.sum(churns) / jnp.clip(calls - 1, 1, window)
            adjusted = (target * loss_mean / (churn_mean + 1e-8)).astype(dtype)
            new = jnp.where(calls >= jnp.maximum(warmup, 2), adjusted, new)
        return ChurnState(calls, params, new, losses, churns)

    return ChurnReduction(init, loss)
