"""Spectral regularization (Lewandowski et al., 2025)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax

from continual_learning.optim import every_step, trees
from continual_learning.optim.links import Kernel
from continual_learning.optim.method import Number, ResetMethod, check_range, reset_method
from continual_learning.optim.units import UnitGraph


@reset_method
class SpectralRegularization(ResetMethod):
    """Regularizes the largest singular value σ of every kernel toward 1, and biases toward 0.

    This keeps gradients diverse, as they are after initialization. The penalty is
    λ Σ_layers (σᵏ − 1)² + ‖b‖²ᵏ, and σ comes from one power iteration in every step, with a vector
    that the state keeps; each scale γ of a norm adds (|γ|ᵏ − 1)², and its offsets are biases. The
    method is that of Alex Lewandowski, Michał Bortkiewicz, Saurabh Kumar, András György, Dale
    Schuurmans, Mateusz Ostaszewski and Marlos C. Machado (ICLR 2025, arXiv:2406.06811).

    Attributes:
      strength: λ. The default is ours; its best value depends on the stream.
      exponent: k, at least 1; 2 in the paper.
    """

    strength: Number = 1e-4
    exponent: Number = 2.0

    resets: ClassVar[bool] = False

    def __post_init__(self):
        super().__post_init__()
        check_range(self, strength=(0, np.inf), exponent=(1, np.inf))

    def wrap(
        self, tx: optax.GradientTransformation, units: Callable[[Any], UnitGraph]
    ) -> optax.GradientTransformation:
        """Return the inner optimizer with the penalty's gradient added to its gradients."""

        def start(params: Any) -> jax.Array:
            graph, leaves = units(params), trees.arrays(params)
            rng = np.random.default_rng(0)  # any direction will do
            kernels = [(k, leaves[k.param]) for k in graph.kernels]
            drawn = [jnp.asarray(rng.normal(size=_probe(k, w.shape)), w.dtype) for k, w in kernels]
            return every_step.flat(_unit(every_step.wide(u)) for u in drawn)

        def gradient(state: jax.Array, params: Any) -> tuple[jax.Array, dict[str, jax.Array]]:
            graph, leaves = units(params), trees.arrays(params)
            shapes = [_probe(k, leaves[k.param].shape) for k in graph.kernels]
            probes = every_step.cut(state, [int(np.prod(shape)) for shape in shapes])
            added = {p: self._of_offset(n, leaves[p]) for p, n in _offsets(graph).items()}
            scales = {link.param for layer in graph.layers for link in layer.scale}
            added |= {p: self._of_scale(leaves[p]) for p in scales}
            kept = []
            for kernel, u, shape in zip(graph.kernels, probes, shapes, strict=True):
                w = leaves[kernel.param]
                u, change = self._of_kernel(every_step.matrices(kernel, w), u.reshape(shape))
                kept.append(u.astype(state.dtype))
                added[kernel.param] = every_step.like_kernel(kernel, change, w.shape)
            return every_step.flat(kept), {p: self.strength * g for p, g in added.items()}

        return every_step.penalized(tx, start, gradient)

    def _of_kernel(self, w: jax.Array, u: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the next u [copies, outputs], and 2k(σᵏ − 1)σᵏ⁻¹uvᵀ, the gradient of (σᵏ − 1)²."""
        v = _unit(jnp.einsum("coi,co->ci", w, u))
        wv = jnp.einsum("coi,ci->co", w, v)
        sigma, new = jnp.linalg.norm(wv, axis=1), _unit(wv)
        factor = self._slope(sigma)[:, None, None]
        # A kernel of zeros has no direction, and the old vector waits until it has one.
        return jnp.where(sigma[:, None] > 0, new, u), factor * new[:, :, None] * v[:, None, :]

    def _of_scale(self, scale: jax.Array) -> jax.Array:
        """Return the gradient of Σ (|γ|ᵏ − 1)²."""
        scale = every_step.wide(scale)
        return self._slope(jnp.abs(scale)) * jnp.sign(scale)

    def _slope(self, x: jax.Array) -> jax.Array:
        """Return the derivative of (xᵏ − 1)² for x ≥ 0."""
        k = self.exponent
        return 2 * k * (x**k - 1) * x ** (k - 1)

    def _of_offset(self, copies: int, bias: jax.Array) -> jax.Array:
        """Return the gradient of ‖b‖²ᵏ, 2k‖b‖²ᵏ⁻²b, for each copy along the first axes."""
        bias, k = every_step.wide(bias), self.exponent
        own = tuple(range(copies, bias.ndim))
        return 2 * k * jnp.sum(jnp.square(bias), axis=own, keepdims=True) ** (k - 1) * bias

    def due(self, state: tuple[()], t: jax.Array) -> jax.Array:
        """Return False."""
        return jnp.zeros((), bool)


def _probe(kernel: Kernel, shape: tuple[int, ...]) -> tuple[int, int]:
    """Return (copies, outputs)."""
    copies, outputs = ([shape[a] for a in axes] for axes in (kernel.copies, kernel.outputs))
    return int(np.prod(copies)), int(np.prod(outputs))


def _unit(u: jax.Array) -> jax.Array:
    norm = jnp.linalg.norm(u, axis=1, keepdims=True)
    return u / jnp.where(norm > 0, norm, 1)


def _offsets(graph: UnitGraph) -> dict[str, int]:
    """Return {path: number of leading axes that are copies} of biases and offsets of norms."""
    copies = {kernel.param: len(kernel.copies) for kernel in graph.kernels}
    found = {}
    for layer in graph.layers:
        leading = copies.get(layer.incoming[0].param, 0)
        own = {link.param for link in layer.bias}
        found |= {p: leading if len(graph.shapes[p]) > leading else 0 for p in own}
    return found | {k.bias: len(k.copies) for k in graph.kernels if k.bias is not None}
