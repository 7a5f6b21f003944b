"""One GPU kernel for arithmetic that XLA would cut into hundreds of kernels.

An XLA kernel reads and writes at most 96 arrays, so that a step of an ant becomes about a thousand
kernels that pass intermediate numbers through memory. In one Pallas kernel, made from the same
functions, every thread keeps its environment's numbers to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

BLOCK = 32
"""The number of environments of a block: one warp, so that no warp waits for another."""

Carry = TypeVar("Carry")


def in_one_kernel(function: Callable[..., Carry], carry: Carry, *rest: Any) -> Carry:
    """Return function(carry, *rest), which a single kernel computes on a GPU.

    JAX has deprecated Triton within Pallas; XLA makes its own kernels where Triton is missing, and
    on GPUs that it does not compile for.

    Args:
      function: an element-wise function over the environments, whose result is shaped like `carry`.
      carry: a pytree of arrays [envs].
      rest: pytrees of arrays [envs] or [].
    """
    if not _compiles_triton():
        return function(carry, *rest)
    try:
        from jax.experimental import pallas
        from jax.experimental.pallas import triton
    except ImportError:
        return function(carry, *rest)

    inputs, structure = jax.tree.flatten((carry, *rest))
    outputs, shaped = jax.tree.flatten(carry)
    (envs,), dtype = outputs[0].shape, outputs[0].dtype
    read, written = _power_of_2(len(inputs)), _power_of_2(len(outputs))

    def kernel(source: Any, target: Any) -> None:
        columns = _columns(source[...])[: len(inputs)]
        results = jax.tree.leaves(function(*jax.tree.unflatten(structure, columns)))
        results += [jnp.zeros_like(results[0])] * (written - len(results))
        target[...] = _joined(results)

    table = jnp.stack([jnp.broadcast_to(x, (envs,)).astype(dtype) for x in inputs], 1)
    table = jnp.pad(table, ((0, -envs % BLOCK), (0, read - len(inputs))))
    # The kernel reads and writes one table because Triton compiles every memory access for seconds.
    result = pallas.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((len(table), written), dtype),
        grid=(len(table) // BLOCK,),
        in_specs=[pallas.BlockSpec((BLOCK, read), lambda i: (i, 0))],
        out_specs=pallas.BlockSpec((BLOCK, written), lambda i: (i, 0)),
        compiler_params=triton.CompilerParams(num_warps=1, num_stages=1),
    )(table)
    return jax.tree.unflatten(shaped, [result[:envs, i] for i in range(len(outputs))])


def _compiles_triton() -> bool:
    """Return whether JAX computes on a GPU that Triton compiles for: NVIDIA's, from Ampere on."""
    if jax.default_backend() != "gpu":
        return False
    capability = getattr(jax.devices()[0], "compute_capability", "8.0")  # "gfx90a" of an AMD GPU
    return capability.split(".")[0].isdecimal() and float(capability) >= 8


def _power_of_2(number: int) -> int:
    """Return the next power of 2, which Triton needs as the size of its shapes."""
    return 1 << (number - 1).bit_length()


def _columns(table: jax.Array) -> list[jax.Array]:
    """Split an array [block, n] into n arrays [block]."""
    return [lax.squeeze(x, [1]) for x in lax.split(table, (1,) * table.shape[1], axis=1)]


def _joined(columns: Sequence[jax.Array]) -> jax.Array:
    """Join arrays [block] in pairs: Triton joins two arrays at a time, along a last axis of 1."""
    block, count = len(columns[0]), len(columns)
    while len(columns) > 1:
        half, last = len(columns) // 2, columns[0].ndim
        columns = [
            lax.concatenate([lax.expand_dims(x, [last]) for x in pair], last)
            for pair in zip(columns[:half], columns[half:], strict=True)
        ]
    return columns[0].reshape(block, count)
