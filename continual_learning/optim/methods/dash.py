"""DASH: direction-aware shrinking (Shin et al., 2024)."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.optim import trees
from continual_learning.optim.method import Amount, Number, Params, Step, check_range, reset_method
from continual_learning.optim.occasions import Occasion, Occasional
from continual_learning.optim.scores import gradient_magnitude
from continual_learning.optim.units import UnitGraph


class Descent(NamedTuple):
    """The state of DASH: the last task, and the average of gradients since it changed."""

    occasion: Occasion
    batches: jax.Array  # int32 [], in the average; 0 before the first change
    mean: Any  # G, a tree like the parameters


@reset_method
class DASH(Occasional):
    """Shrinks weights by how little they point where the loss of the new data falls.

    Weights that hold noise of earlier data are not aligned with the negative gradient of the new
    data and shrink; useful features stay (Shin et al., 2024, arXiv:2410.23495). G ← (1−α)G − α·∇L
    over batches, from 0; then w ← clip(cos(G_w, w), λ, 1)·w for every group w: the incoming weights
    of a unit of a dense layer, the receptive field of a pair of channels of a conv layer, the bias
    of a layer. Norms and moments stay. Groups and defaults are those of the authors' code.

    The authors average over all data before they train. Here G takes the gradients of the first
    `steps` calls after a change; the optimizer steps in these too, and the last one shrinks.

    Attributes:
      every: steps between two changes; None: the task changes.
      alpha: α, the weight of a new batch; it has no effect with `steps=1`.
      lam: λ, the least share that stays of a weight.
      steps: batches in the average; a task that is shorter is left alone.
    """

    alpha: Number = 0.3
    lam: Number = 0.3
    steps: Number = 1

    def __post_init__(self):
        super().__post_init__()
        check_range(self, alpha=(0, 1), lam=(0, 1), steps=(1, np.inf))

    def start(self, graph: UnitGraph, dtype: Any) -> Any:
        """Return the state before the first task."""
        paths = trees.arrays(graph.treedef.unflatten(range(graph.treedef.num_leaves)))
        mean = graph.treedef.unflatten(jnp.zeros(graph.shapes[path], dtype) for path in paths)
        return Descent(super().start(graph, dtype), jnp.zeros((), jnp.int32), mean)

    def observe(self, graph: UnitGraph, state: Any, step: Step) -> tuple[Any, None]:
        """Return the state with the gradient in its average, which a change starts anew."""
        occasion, _ = super().observe(graph, state.occasion, step)
        begins = super().due(occasion, step.t)
        old, new = trees.named_leaves(state.mean), {}
        for path in groups(graph):
            kept = jnp.where(begins, 0, (1 - self.alpha) * old[path])
            new[path] = kept - self.alpha * step.grads[path].astype(kept.dtype)
        batches = jnp.where(begins, 1, state.batches + (state.batches > 0))
        return Descent(occasion, batches, trees.replace(state.mean, new)), None

    def due(self, state: Any, t: jax.Array) -> jax.Array:
        """Return whether the average holds `steps` batches."""
        return state.batches == self.steps

    def amount(self, graph: UnitGraph, state: Descent, step: Step) -> Amount:
        """Return the mean share that the incoming weights of a unit lose, and the rest."""
        shares = self._shares(graph, state, step.params)
        spread = {p: jnp.broadcast_to(s, step.params[p].shape) for p, s in shares.items()}
        kept = gradient_magnitude(graph, spread, jnp.result_type(*spread.values()))
        return Amount(1 - kept, kept)

    def rewrite(
        self, graph: UnitGraph, state: Descent, params: Params, amount: Amount, fresh: Params
    ) -> dict[str, jax.Array]:
        """Shrink kernels and biases; those whose shares are not finite stay."""
        shares = self._shares(graph, state, params).items()
        known = {p: jnp.where(jnp.all(jnp.isfinite(share)), share, 1) for p, share in shares}
        return {p: (share * params[p]).astype(params[p].dtype) for p, share in known.items()}

    def keep(self, graph: UnitGraph, amount: Amount) -> dict[str, jax.Array]:
        """Return {}, so that moments stay as they are."""
        return {}

    def drawn(self, graph: UnitGraph) -> list[str]:
        """Return the paths of all kernels: networks without hidden units are changed too."""
        return [k.param for k in graph.kernels]

    def _shares(self, graph: UnitGraph, state: Descent, params: Params) -> dict[str, jax.Array]:
        """Return clip(cos(G, w), λ, 1), {path: array that broadcasts to the parameter}."""
        mean = trees.named_leaves(state.mean)
        of = {p: cosine(mean[p], params[p], axes) for p, axes in groups(graph).items()}
        return {p: jnp.clip(share, self.lam, 1) for p, share in of.items()}


def groups(graph: UnitGraph) -> dict[str, tuple[int, ...]]:
    """Return the axes along which entries shrink together, {path: axes}."""
    axes = {k.param: k.spatial or k.inputs for k in graph.kernels}
    for k in graph.kernels:
        if k.bias is not None:
            axes[k.bias] = tuple(range(len(k.copies), len(graph.shapes[k.bias])))
    return axes


def cosine(a: jax.Array, b: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    """Return the cosine over `axes`, which stay with size 1; norms count as in torch."""
    b = b.astype(a.dtype)
    aa, bb, ab = (jnp.sum(x, axis=axes, keepdims=True) for x in (a * a, b * b, a * b))
    return ab / (jnp.maximum(jnp.sqrt(aa), 1e-8) * jnp.maximum(jnp.sqrt(bb), 1e-8))
