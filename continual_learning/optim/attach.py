"""`attach_reset_method`: inner update → score → reset → updates."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from continual_learning.optim import fresh, inputs, moments, seeding, trees
from continual_learning.optim.branch import when
from continual_learning.optim.log import (
    ResetLog,
    count_reset,
    count_skipped,
    count_utilities,
    empty_log,
)
from continual_learning.optim.method import ResetMethod, Step, numbers
from continual_learning.optim.scores import gradient_magnitude, normalized
from continual_learning.optim.units import UnitGraph

Arrays = dict[str, jax.Array]  # {path: array}


class ResetState(NamedTuple):
    """State of an optimizer with a reset method attached; arrays only.

    Attributes:
      inner: state of the inner optimizer.
      calls: int32 [], calls of `update` so far.
      key: uint32 key data, which are constant: a call folds its number into them.
      scales: standard deviations of the kernels at `init`, see `fresh.initial_scales`.
      method: the method's own state.
      log: the log of the method's resets.
    """

    inner: Any
    calls: jax.Array
    key: jax.Array
    scales: jax.Array
    method: Any
    log: ResetLog


def attach_reset_method(
    *named: tuple[str, Any],
    tx: optax.GradientTransformation | None = None,
    reset_method: ResetMethod | None = None,
    units: inputs.Graph = None,
    histogram: bool = True,
) -> optax.GradientTransformationExtraArgs:
    """Return an optimizer that keeps plasticity by resetting hidden units.

    The result is an Optax transformation like any other: `update` returns updates, which are those
    of the inner optimizer, bit for bit, where no reset is due.

        tx = attach_reset_method(("tx", optax.adam(1e-3)), ("reset_method", CPR()))

    Args:
      *named: ("tx", …) and ("reset_method", …), as an alternative to the keywords.
      tx: the inner optimizer.
      reset_method: `CPR()`, `CBP()`, `ReDo()`, any other method of `optim.registered()`,
        `NoReset()`, or a method of your own.
      units: a `UnitGraph` (see `trace_units`), or a callable that makes one from the parameters.
        Without it, a plain sequential dense network is recognized from its parameters.
      histogram: whether the log keeps a histogram of normalized gradient utilities.

    Returns:
      A `GradientTransformationExtraArgs`. `update` needs `params`; CBP and ReDo need
      `features={layer: array}`, CPR with `score="per_sample"` needs `sample_scores=`, and methods
      that act when the task changes need `task=`, its number, counted from 0.
      `update(…, reset=False)` prevents a reset in this call and `reset=True` forces one, against
      the method's schedule; with a Python bool the program has no branch.
    """
    inner, method = inputs.optimizer_and_method(named, tx, reset_method)
    graph_of = inputs.graph_maker(units, method)
    inner = optax.with_extra_args_support(method.wrap(inner, graph_of))

    def init(params: Any) -> ResetState:
        graph, leaves = graph_of(params), trees.arrays(params)
        kernels = [leaves[k.param] for k in graph.kernels]
        dtype = _dtype(kernels)
        return ResetState(
            inner=inner.init(params),
            calls=jnp.zeros((), jnp.int32),
            key=seeding.seeded(method.key, kernels),
            scales=fresh.initial_scales(graph, leaves, method.init, dtype),
            method=method.start(graph, dtype),
            log=empty_log(len(graph.layers), dtype, histogram),
        )

    def update(
        updates: Any, state: Any, params: Any = None, **extra: Any
    ) -> tuple[Any, ResetState]:
        if params is None:
            raise ValueError(
                "attach_reset_method: `update` needs the parameters: "
                "call `tx.update(grads, state, params)`."
            )
        graph = graph_of(params)
        acts = not method.resets or bool(graph.layers or method.drawn(graph))
        given = inputs.extras(method, graph, params, extra) if acts else inputs.NOTHING
        wanted = inputs.wanted(extra)
        grads = trees.arrays(updates)
        inputs.check_gradients(graph, grads)
        updates, inner_state = inner.update(updates, state.inner, params, **extra)

        t, log = state.calls, state.log
        dtype = state.scales.dtype
        if histogram and graph.layers:
            score = gradient_magnitude(graph, grads, dtype)
            utility = normalized(graph, score, 1e-8)
            log = log._replace(histogram=count_utilities(graph, log.histogram, utility))
        state = state._replace(inner=inner_state, calls=optax.safe_increment(t), log=log)
        if not (acts and method.resets):
            return updates, state
        seen = _Seen(
            method=numbers(method, dtype),
            t=t,
            key=seeding.wrap(method.key, state.key),
            scales=state.scales,
            grads=grads,
            params=trees.arrays(params),
            given=given,
        )
        return _observe_and_reset(graph, updates, state, seen, wanted)

    return optax.GradientTransformationExtraArgs(init, update)


class _Seen(NamedTuple):
    """The arrays of one call, which are passed into the branch rather than closed over."""

    method: ResetMethod
    t: jax.Array
    key: jax.Array
    scales: jax.Array
    grads: Arrays
    params: Arrays  # before the inner optimizer's step
    given: inputs.Given

    def step(self, updates: Arrays) -> Step:
        """Return the method's view of this call, given the updates of all parameters."""
        after: Any = {p: optax.apply_updates(self.params[p], u) for p, u in updates.items()}
        key = jax.random.fold_in(self.key, self.t)
        return Step(self.t, key, self.grads, after, *self.given)


class _Outcome(NamedTuple):
    updates: Arrays  # of the parameters that were rewritten
    keep: Arrays  # shares of their moments
    method: Any
    log: jax.Array


def _observe_and_reset(
    graph: UnitGraph, updates: Any, state: ResetState, seen: _Seen, wanted: inputs.Wanted
) -> tuple[Any, ResetState]:
    # Updates must be at least as precise as the parameters, so that p + (p' - p) is p'.
    changes = {
        p: u.astype(jnp.promote_types(u.dtype, seen.params[p].dtype))
        for p, u in trees.arrays(updates).items()
    }
    observed, finite = seen.method.observe(graph, state.method, seen.step(changes))
    log = state.log.numbers if finite is None else count_skipped(state.log.numbers, finite)
    if wanted is False:
        log = state.log._replace(numbers=log)
        return updates, state._replace(method=observed, log=log)

    def outcome(updates: Arrays, observed: Any, log: jax.Array, seen: _Seen) -> _Outcome:
        return _reset(graph, updates, observed, log, seen)

    # Only arrays that a reset changes are carried through the branch; the others are not copied.
    touched = jax.eval_shape(outcome, changes, observed, log, seen)
    moving = {p: changes[p] for p in touched.updates}
    still = {p: u for p, u in changes.items() if p not in moving}
    found = moments.find_moments(state.inner, {p: seen.params[p] for p in touched.keep})

    def reset(carry: Any, args: Any) -> Any:
        moving, found, observed, log = carry
        still, seen = args
        out = outcome(still | moving, observed, log, seen)
        return out.updates, moments.scale_moments(found, out.keep), out.method, out.log

    carry, args = (moving, found, observed, log), (still, seen)
    if wanted is True:
        moving, found, observed, log = reset(carry, args)
    else:
        due = seen.method.due(observed, seen.t) if wanted is None else wanted
        moving, found, observed, log = when(due, reset, carry, args)
    return trees.replace(updates, moving), state._replace(
        inner=moments.replace_moments(state.inner, found),
        method=observed,
        log=state.log._replace(numbers=log),
    )


def _reset(
    graph: UnitGraph, updates: Arrays, observed: Any, log: jax.Array, seen: _Seen
) -> _Outcome:
    """Reset units, and return the result as updates for `optax.apply_updates`.

    Args:
      graph: the units.
      updates: {path: array}, those of the inner optimizer.
      observed: the method's state after `observe`.
      log: the numbers of the log.
      seen: the arrays of this call.
    """
    method, step = seen.method, seen.step(updates)
    amount = method.amount(graph, observed, step)
    known = graph.layer_finite(amount.utility)
    reset = jnp.where(known, amount.reset, 0).astype(seen.scales.dtype)
    amount = amount._replace(reset=reset)
    key = jax.random.fold_in(step.key, 1)  # the method may have used step.key itself
    drawn = method.drawn(graph)
    kernels = fresh.draw(graph, step.params, drawn, key, method.init, seen.scales)
    new = method.rewrite(graph, observed, step.params, amount, kernels)

    def as_update(path: str) -> jax.Array:
        # An entry that the rewrite leaves alone keeps the inner update itself, since p + (p' - p)
        # is not always p'.
        update, alone = updates[path], new[path] == step.params[path]
        change = new[path].astype(update.dtype) - seen.params[path].astype(update.dtype)
        return jnp.where(alone, update, change)

    return _Outcome(
        updates={path: as_update(path) for path in new},
        keep=method.keep(graph, amount),
        method=method.finish(observed, amount),
        log=count_reset(graph, log, amount, known),
    )


def _dtype(kernels: list[jax.Array]) -> Any:
    """Return the dtype of per-unit numbers: float32, or float64 if a kernel is."""
    return jnp.result_type(jnp.float32, *kernels)
