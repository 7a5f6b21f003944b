"""Fresh kernels ξ, in the layout of the parameters."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.optim.links import Kernel
from continual_learning.optim.units import UnitGraph

Params = Mapping[str, jax.Array]  # {path: array}
Init = Callable[..., jax.Array] | str

AS_INITIALIZED = "as_initialized"
INITIALIZERS: dict[str, Callable[..., jax.Array]] = {
    "he_uniform": jax.nn.initializers.he_uniform(),
    "he_normal": jax.nn.initializers.he_normal(),
    "lecun_uniform": jax.nn.initializers.lecun_uniform(),
    "lecun_normal": jax.nn.initializers.lecun_normal(),
    "glorot_uniform": jax.nn.initializers.glorot_uniform(),
}
"""Initializers that may be given by name."""


def check_init(owner: str, init: Any) -> None:
    """Raise a ValueError unless `init` is an initializer, its name, or "as_initialized"."""
    if not callable(init) and init not in (AS_INITIALIZED, *INITIALIZERS):
        raise ValueError(
            f"{owner}: init must be {AS_INITIALIZED!r}, one of {', '.join(INITIALIZERS)}, or an "
            f"initializer (see jax.nn.initializers); got {init!r}."
        )


def initial_scales(graph: UnitGraph, params: Params, init: Init, dtype: Any) -> jax.Array:
    """Return the standard deviations of the initial kernels.

    Args:
      graph: the units.
      params: {path: array}, the initial parameters.
      init: the method's `init`.
      dtype: the dtype of the result.

    Returns:
      [kernels]; or [kernels, copies], padded with 0, if `init` is "as_initialized" and a kernel
      holds several copies (an ensemble, or layers stacked in one parameter).
    """
    wide = init == AS_INITIALIZED and any(kernel.copies for kernel in graph.kernels)
    rows = []
    for kernel in graph.kernels:
        w = params[kernel.param].astype(dtype)
        axes = [a for a in range(w.ndim) if not wide or a not in kernel.copies]
        rows.append(jnp.std(w, axis=axes))
    if not wide:
        return jnp.array(rows, dtype)
    width = max(row.size for row in rows)
    flat = [row.reshape(-1) for row in rows]
    return jnp.stack([jnp.pad(row, (0, width - row.size)) for row in flat])


def draw(
    graph: UnitGraph,
    params: Params,
    paths: Iterable[str],
    key: jax.Array,
    init: Init,
    scales: jax.Array,
) -> dict[str, jax.Array]:
    """Return fresh kernels ξ in the layout of the parameters, {path: array}.

    Args:
      graph: the units, and how the kernels use their axes.
      params: {path: array}, for shapes and dtypes.
      paths: the kernels to draw.
      key: an initializer gets it with the kernel's number in `graph.kernels` folded in; names do
        not matter.
      init: the method's `init`.
      scales: the result of `initial_scales`.
    """
    wanted = set(paths)
    chosen = [(i, kernel) for i, kernel in enumerate(graph.kernels) if kernel.param in wanted]
    if init == AS_INITIALIZED:
        return _at_scale(chosen, params, key, scales)
    initializer = INITIALIZERS[init] if isinstance(init, str) else init
    drawn = {}
    for i, kernel in chosen:
        w, k = params[kernel.param], jax.random.fold_in(key, i)
        drawn[kernel.param] = _initialize(kernel, k, w.shape, w.dtype, initializer)
    return drawn


def _at_scale(
    chosen: list[tuple[int, Kernel]], params: Params, key: jax.Array, scales: jax.Array
) -> dict[str, jax.Array]:
    """Draw kernels with the standard deviations of `initial_scales`.

    All kernels of a dtype are cut from one long draw: a generator for each would take up most of
    the compilation of a program with a reset.
    """
    drawn: dict[str, jax.Array] = {}
    dtypes = dict.fromkeys(params[kernel.param].dtype for _, kernel in chosen)
    for number, dtype in enumerate(dtypes):
        alike = [(i, k) for i, k in chosen if params[k.param].dtype == dtype]
        ends = [*itertools.accumulate(params[kernel.param].size for _, kernel in alike)]
        draws = jax.random.normal(jax.random.fold_in(key, number), (ends[-1],), dtype)
        for (i, kernel), end in zip(alike, ends, strict=True):
            w = params[kernel.param]
            part = jax.lax.slice(draws, [end - w.size], [end]).reshape(w.shape)
            drawn[kernel.param] = part * _per_entry(kernel, w.shape, scales[i]).astype(dtype)
    return drawn


def _per_entry(kernel: Kernel, shape: tuple[int, ...], scale: jax.Array) -> jax.Array:
    """Return a kernel's row of `initial_scales`, shaped to broadcast against the kernel."""
    if scale.ndim == 0:
        return scale
    along = [n if a in kernel.copies else 1 for a, n in enumerate(shape)]
    return scale[: int(np.prod(along))].reshape(along)


def _initialize(
    kernel: Kernel, key: jax.Array, shape: tuple[int, ...], dtype: Any, init: Callable[..., Any]
) -> jax.Array:
    """Call `init` in [*spatial, in, out] for every copy, and move the axes into place."""
    order = (*kernel.copies, *kernel.spatial, *kernel.inputs, *kernel.outputs)

    def extent(axes: tuple[int, ...]) -> int:
        return int(np.prod([shape[a] for a in axes]))

    canonical = (
        *(shape[a] for a in kernel.spatial),
        extent(kernel.inputs),
        extent(kernel.outputs),
    )
    if kernel.copies:
        keys = jax.random.split(key, extent(kernel.copies))
        fresh = jax.vmap(lambda k: init(k, canonical, dtype))(keys)
    else:
        fresh = init(key, canonical, dtype)
    return fresh.reshape([shape[a] for a in order]).transpose(np.argsort(order))
