"""Resets of the last layers (Nikishin et al., 2022)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.optim.method import (
    Amount,
    Number,
    Params,
    Step,
    check_range,
    choice,
    reset_method,
)
from continual_learning.optim.occasions import Occasion, Occasional
from continual_learning.optim.units import UnitGraph


@reset_method
class LayerReset(Occasional):
    """Draws the last layers anew, with their biases and norms, and keeps the layers before them.

    A network overfits to its first data; fresh last layers learn again from the features of the
    others. W ← ξ, b ← 0, γ ← 1 for all kernels whose distance from the output is at most `layers`
    (Nikishin et al., 2022, arXiv:2205.07802). Their code resets the output layer for SPR (the
    default here), all heads after the encoder for DrQ, and all for SAC (`FullReset`).

    Kernels at distance 1 are those of the output layer, of all heads; a kernel that others read
    is one farther than the farthest of these. A norm starts over if all producers of its units do;
    parameters of no layer stay. The log counts units, of which the output layer has none.

    Attributes:
      every: steps between resets; None resets in the first step of every task but the first.
      layers: how many layers are reset, counted from the output; None resets all.
      reset_moments: whether the moments of what is reset restart at zero, as in the paper's code.
    """

    layers: Number | None = 1
    reset_moments: bool = choice(True)

    def __post_init__(self):
        super().__post_init__()
        if self.layers is not None:
            check_range(self, layers=(1, np.inf))

    def amount(self, graph: UnitGraph, state: Occasion, step: Step) -> Amount:
        """Return 1 for the units whose producers are all reset, 0 for others."""
        far = distances(graph)
        rows = np.array([max(far[i.param] for i in layer.incoming) for layer in graph.layers])
        reset = self._is_reset(rows)[:, None] & graph.valid
        return Amount(reset, jnp.ones(graph.shape))

    def rewrite(
        self, graph: UnitGraph, state: Occasion, params: Params, amount: Amount, fresh: Params
    ) -> dict[str, jax.Array]:
        """Put fresh kernels, biases and norms in the place of those that are reset."""
        new: dict[str, jax.Array] = {}
        for path, reset, value in self._parts(graph, amount, fresh):
            w = new.get(path, params[path])
            new[path] = jnp.where(reset, value, w).astype(w.dtype)
        return new

    def keep(self, graph: UnitGraph, amount: Amount) -> dict[str, jax.Array]:
        """Return 0 for the moments of what is reset and 1 for others, or {} for all."""
        share: dict[str, jax.Array] = {}
        if self.reset_moments:
            for path, reset, _ in self._parts(graph, amount, {}):
                share[path] = jnp.where(reset, 0.0, share.get(path, 1.0))
        return share

    def drawn(self, graph: UnitGraph) -> list[str]:
        """Return the paths of all kernels."""
        return [k.param for k in graph.kernels]

    def _is_reset(self, distance: Any) -> jax.Array:
        return jnp.asarray(distance) <= (np.inf if self.layers is None else self.layers)

    def _parts(
        self, graph: UnitGraph, amount: Amount, fresh: Params
    ) -> Iterator[tuple[str, jax.Array, Any]]:
        """Yield (path, whether its entries are reset, their fresh values)."""
        far = distances(graph)
        for kernel in graph.kernels:
            reset = self._is_reset(far[kernel.param])
            yield kernel.param, reset, fresh.get(kernel.param, 0)
            if kernel.bias is not None:
                yield kernel.bias, reset, 0
        rows = graph.unpack(amount.reset)
        for layer in graph.layers:
            for link in layer.bias + layer.scale:
                reset = link.expand(rows[layer.name], len(graph.shapes[link.param]), 0) > 0
                yield link.param, reset, 1 if link in layer.scale else 0


@reset_method
class FullReset(LayerReset):
    """Draws the whole network anew: `LayerReset` with all layers, as the paper has it for SAC."""

    layers: Number | None = None


def distances(graph: UnitGraph) -> dict[str, int]:
    """Return the distance of every kernel from the output, {path: distance}."""
    found: dict[str, int] = {}
    following = 1
    for kernel in reversed(graph.kernels):
        made = [r for r in graph.layers if kernel.param in [i.param for i in r.incoming]]
        read = [found[o.param] for layer in made for o in layer.outgoing if o.param in found]
        # Nothing known reads a query, for example: it counts with the kernel after it.
        unknown = graph.output and kernel.param not in graph.output
        distance = 1 + max(read) if read else following if unknown else 1
        following = found[kernel.param] = max(distance, found.get(kernel.param, 1))
    return found
