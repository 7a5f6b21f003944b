"""Per-sample gradient norms of units from one backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.optim.tracing.evaluate import OWN_RULES, Slot
from continual_learning.optim.tracing.facts import TIED
from continual_learning.optim.tracing.history import History
from continual_learning.optim.tracing.labels import Activation, Entries
from continual_learning.optim.tracing.program import Program
from continual_learning.optim.units import UnitGraph, replicated

_CHUNK = 2**24  # entries of per-sample kernel gradients in memory at a time


class _Use(NamedTuple):
    """A contraction of a layer.

    Attributes:
      out, kernel, x: its result and its operands.
      eqn: its equation.
      units: the unit of the layer that each output is, counted over copies, or NONE for outputs
        of other layers.
    """

    out: Slot
    kernel: Slot
    x: Slot
    eqn: Any
    units: np.ndarray


def per_sample_scores(
    graph: UnitGraph, loss_fn: Callable[..., Any], has_aux: bool
) -> Callable[..., Any]:
    """Return a function as `UnitGraph.per_sample_scores` explains."""
    plans: dict[Any, dict[str, list[_Use]]] = {}

    def value_grads_scores(params: Any, *inputs: Any) -> tuple[Any, Any, dict[str, jax.Array]]:
        program = Program(loss_fn, params, inputs, graph.pairs)
        if program.key not in plans:
            plans[program.key] = _plan(graph, program)
        plan = plans[program.key]
        uses = [use for found in plan.values() for use in found]
        wanted = {slot for use in uses for slot in (use.kernel, use.x)}
        added = {use.out: _zeros(use.eqn.outvars[0].aval) for use in uses}

        def loss(params: Any, added: Any) -> Any:
            out, taken = program.run(params, inputs, wanted, added)
            value, aux = out if has_aux else (out, None)
            return value, (aux, taken)

        (value, (aux, taken)), (grads, deltas) = jax.value_and_grad(loss, (0, 1), has_aux=True)(
            params, added
        )
        scores = {
            layer.name: _score(layer.name, layer.size, plan[layer.name], taken, deltas)
            for layer in graph.layers
        }
        return ((value, aux) if has_aux else value), grads, scores

    return value_grads_scores


def _zeros(aval: Any) -> jax.Array:
    return jnp.zeros(aval.shape, aval.dtype)


def _plan(graph: UnitGraph, program: Program) -> dict[str, list[_Use]]:
    """Return the contractions of every layer."""
    small = program.small
    seen, _, _ = small.interpreted
    labels = small.labels_of(graph)
    plan: dict[str, list[_Use]] = {name: [] for name in graph.names}
    for record in History(seen.journal).contractions:
        out = record.outs[0]
        assert isinstance(out, Activation) and record.address is not None
        own = np.unique(out.labels)
        for name, index in labels.items():
            if (index[own] >= 0).any():
                side = next(i for i, v in enumerate(record.ins) if isinstance(v, Entries))
                kernel, x = (Slot(record.address, "in", i) for i in (side, 1 - side))
                slot = Slot(record.address, "out", 0)
                _check(name, seen, record.ins[side], slot, program.way(slot))
                plan[name].append(_Use(slot, kernel, x, program.equation(slot), index[own]))
    return plan


def _check(name: str, seen: Any, kernel: Any, out: Slot, way: list[Any]) -> None:
    if out.loops:
        raise ValueError(
            f"per_sample_scores: a kernel of layer {name!r} is used in every iteration of a scan, "
            "so that its gradient is a sum over them. Use CPR(score='batch_gradient')."
        )
    own = [eqn.primitive.name for eqn in way if eqn.primitive.name in OWN_RULES]
    if own:
        raise ValueError(
            f"per_sample_scores: a kernel of layer {name!r} is used inside {own[0]!r}, which has a "
            "derivative of its own."
        )
    if seen.why_lost(kernel.numbers.reshape(-1)) == TIED:
        raise ValueError(
            f"per_sample_scores: a kernel of layer {name!r} is used more than once in the loss, "
            "so that its gradient is a sum over uses. Pass the parameters of a second use (a "
            "target network, say) as another argument."
        )


def _score(
    name: str, size: int, uses: list[_Use], taken: dict[Slot, Any], deltas: dict[Slot, Any]
) -> jax.Array:
    """Return Σ_b ‖gradient of the unit's incoming entries through sample b‖, [units].

    Args:
      name: the layer, for errors.
      size: the number of its units.
      uses: its contractions.
      taken: {slot: array}, the operands.
      deltas: {slot: array}, the gradients of the results.
    """
    total: jax.Array | None = None
    for use in uses:
        squares = _squares(use, taken[use.x], taken[use.kernel], deltas[use.out])
        place = np.full(size, squares.shape[1])  # the column of zeros for units of other uses
        place[use.units[use.units >= 0]] = np.flatnonzero(use.units >= 0)
        squares = jnp.pad(squares, ((0, 0), (0, 1)))[:, place]
        if total is not None and len(total) != len(squares):
            raise ValueError(
                f"per_sample_scores: the producers of layer {name!r} see {len(total)} and "
                f"{len(squares)} samples."
            )
        total = squares if total is None else total + squares
    assert total is not None
    return jnp.sum(jnp.sqrt(total), axis=0)


def _squares(use: _Use, x: jax.Array, w: jax.Array, delta: jax.Array) -> jax.Array:
    """Return the squared gradient norms of each output's own entries, [samples, outputs].

    Args:
      use: the contraction.
      x: the operand that the kernel reads.
      w: the kernel.
      delta: the gradient of the result.
    """
    dtype = jnp.promote_types(delta.dtype, jnp.float32)
    x, w, delta = (a.astype(dtype) for a in (x, w, delta))
    params, first = use.eqn.params, use.kernel.number == 0  # whether the kernel comes first
    if use.eqn.primitive.name == "conv_general_dilated":
        lhs, rhs, out = params["dimension_numbers"]
        # A few samples at a time cannot be split among devices.
        x, w, delta = map(replicated, (x, w, delta))
        if params["feature_group_count"] == params["batch_group_count"] == 1:
            shape = [w.shape[axis] for axis in rhs[2:]]
            return _by_patches(params, x.transpose(lhs), shape, delta.transpose(out))
        return _by_sample(use, x, w, delta, lhs[0], out[0], (rhs[0],))
    contract, copies = params["dimension_numbers"]
    w_in, x_in = contract if first else contract[::-1]
    w_copies, x_copies = copies if first else copies[::-1]
    x_free = [a for a in range(x.ndim) if a not in (*x_in, *x_copies)]
    w_out = [a for a in range(w.ndim) if a not in (*w_in, *w_copies)]
    lead = len(w_copies) + (len(w_out) if first else 0)  # of the free axes of x in the result
    if int(np.prod([x.shape[a] for a in x_free[1:]])) > 1:  # samples have several positions
        x, w, delta = map(replicated, (x, w, delta))
        return _by_sample(use, x, w, delta, x_free[0], lead, (*w_copies, *w_out))
    # The gradient of one sample is the outer product of δ and x: its norm is |δ|·‖x‖.
    samples = x.shape[x_free[0]] if x_free else 1
    norms = jnp.sum(jnp.square(x), axis=tuple(x_in))
    left = [a for a in range(x.ndim) if a not in x_in]
    norms = norms.transpose([left.index(a) for a in (*x_copies, *x_free)])
    norms = norms.reshape(-1, samples, 1)
    free = list(range(lead, lead + len(x_free)))
    outputs = [a for a in range(len(w_copies), delta.ndim) if a not in free]
    delta = delta.transpose([*range(len(w_copies)), *free, *outputs])
    delta = delta.reshape(norms.shape[0], samples, -1)
    return jnp.moveaxis(jnp.square(delta) * norms, 1, 0).reshape(samples, -1)


def _by_patches(
    params: dict[str, Any], x: jax.Array, shape: list[int], delta: jax.Array
) -> jax.Array:
    """Return the squared norms of a convolution, whose gradient is a product of patches with δ.

    Unlike the gradient of a convolution, a product stays a product under any number of `vmap`s.

    Args:
      params: the parameters of the convolution.
      x: the operand that the kernel reads, [samples, in, *places].
      shape: the extent of the kernel's places.
      delta: the gradient of the result, [samples, out, *places].
    """
    keys = ("window_strides", "padding", "lhs_dilation", "rhs_dilation")

    def one(sample: tuple[jax.Array, jax.Array]) -> jax.Array:
        x, delta = sample
        read = jax.lax.conv_general_dilated_patches(
            x[None],
            shape,
            **{key: params[key] for key in keys},
            precision=jax.lax.Precision.HIGHEST,
        )
        gradient = delta.reshape(len(delta), -1) @ read.reshape(read.shape[1], -1).T
        return jnp.sum(jnp.square(gradient), axis=1)

    outputs, places = delta.shape[1], int(np.prod(delta.shape[2:]))
    entries = x.shape[1] * int(np.prod(shape)) * (places + outputs)  # patches and a gradient
    return jax.lax.map(one, (x, delta), batch_size=max(1, _CHUNK // entries))


def _by_sample(
    use: _Use,
    x: jax.Array,
    w: jax.Array,
    delta: jax.Array,
    x_batch: int,
    delta_batch: int,
    own: tuple[int, ...],
) -> jax.Array:
    """Return the squared norms by the kernel's gradient of each sample, a few samples at a time.

    Args:
      use: the contraction.
      x: the operand that the kernel reads.
      w: the kernel.
      delta: the gradient of the result.
      x_batch: the batch axis of `x`.
      delta_batch: the batch axis of `delta`.
      own: the axes of the kernel that number its outputs, in this order.
    """
    others = tuple(a for a in range(w.ndim) if a not in own)

    def one(sample: tuple[jax.Array, jax.Array]) -> jax.Array:
        x, delta = (
            jnp.expand_dims(a, axis) for a, axis in zip(sample, (x_batch, delta_batch), strict=True)
        )

        def contracted(w: jax.Array) -> jax.Array:
            ins = (w, x) if use.kernel.number == 0 else (x, w)
            params = {**use.eqn.params, "preferred_element_type": delta.dtype}
            params |= {"out_sharding": None} if "out_sharding" in params else {}
            return use.eqn.primitive.bind(*ins, **params)

        (gradient,) = jax.linear_transpose(contracted, w)(delta)
        squares = jnp.sum(jnp.square(gradient), axis=others)
        return squares.transpose([sorted(own).index(a) for a in own]).reshape(-1)

    samples = jnp.moveaxis(x, x_batch, 0), jnp.moveaxis(delta, delta_batch, 0)
    return jax.lax.map(one, samples, batch_size=max(1, _CHUNK // w.size))
