"""UPGD: utility-based perturbed gradient descent (Elsayed & Mahmood, 2024)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from continual_learning.optim import seeding, trees
from continual_learning.optim.method import (
    Number,
    Params,
    ResetMethod,
    check_range,
    choice,
    numbers,
    reset_method,
)
from continual_learning.optim.scores import outgoing_product
from continual_learning.optim.units import UnitGraph


class UPGDState(NamedTuple):
    """State of an optimizer with UPGD.

    Attributes:
      inner: state of the inner optimizer.
      calls: int32 [], calls so far.
      key: uint32 key data, which are constant.
      utility: the moving averages of the utilities, a tree like the parameters, or [layers, width].
    """

    inner: Any
    calls: jax.Array
    key: jax.Array
    utility: Any


@reset_method
class UPGD(ResetMethod):
    """Gates the steps of the inner optimizer, and noise, by the utilities of weights or units.

    The utility of a weight, −g·w, estimates by how much the loss would grow without it; that of a
    unit is the sum over its outgoing weights. The step v of the inner optimizer becomes

        Δw = gain · (1 − sigmoid(û)) · (v − α·σ·ξ) − α·λ·w

    with the scaled moving average û of the utility and ξ ~ N(0, 1) (Elsayed & Mahmood, ICLR 2024,
    arXiv:2404.00781). This is the first-order UPGD of its authors around SGD (v = −α·g, gain 1 in
    their experiments), and their AdaptiveUPGD around Adam. The defaults are those of the latter.

    Attributes:
      sigma: σ.
      beta_utility: the decay of the moving average.
      weight_decay: λ, which no gate reduces.
      step_size: α, the learning rate of the inner optimizer.
      gain: makes up for the gate, which is 1/2 at a utility of 0.
      level: "weight", or "unit": all weights, biases and norm scales that produce a unit have its
        gate, and those without a unit (the output layer) have neither gate nor noise.
      scaling: "global" divides by the largest utility of the network, "local" by the norm of the
        utilities of the weights that enter a unit, or at the level of units, of a layer.
    """

    sigma: Number = 1e-3
    beta_utility: Number = 0.999
    weight_decay: Number = 1e-3
    step_size: Number = 3e-4
    gain: Number = 2.0
    level: str = choice("weight", "weight", "unit")
    scaling: str = choice("global", "global", "local")

    resets: ClassVar[bool] = False

    def __post_init__(self):
        super().__post_init__()
        check_range(self, beta_utility=(0, 1))
        names = ("sigma", "weight_decay", "step_size", "gain")
        check_range(self, **dict.fromkeys(names, (0, np.inf)))

    def due(self, state: tuple[()], t: jax.Array) -> jax.Array:
        """Return False."""
        return jnp.zeros((), bool)

    def wrap(
        self, tx: optax.GradientTransformation, units: Callable[[Any], UnitGraph]
    ) -> optax.GradientTransformation:
        """Return the inner optimizer with gates and noise."""
        tx = optax.with_extra_args_support(tx)

        def init(params: Any) -> UPGDState:
            leaves = trees.arrays(params)
            key = seeding.seeded(self.key, leaves.values())
            if self.level == "unit":
                utility = jnp.zeros(units(params).shape, _dtype(leaves))
            else:
                utility = jax.tree.map(lambda p: jnp.zeros(p.shape, _dtype({"": p})), params)
            return UPGDState(tx.init(params), jnp.zeros((), jnp.int32), key, utility)

        def update(
            updates: Any, state: Any, params: Any = None, **extra: Any
        ) -> tuple[Any, UPGDState]:
            w, g, graph = trees.arrays(params), trees.arrays(updates), units(params)
            method: Any = numbers(self, _dtype(w))
            count: Any = optax.safe_increment(state.calls)
            updates, inner = tx.update(updates, state.inner, params, **extra)
            if self.level == "unit":
                old = graph.unpack(state.utility)
                found = graph.unpack(-outgoing_product(graph, w, g, state.utility.dtype))
                new = method.averages(old, found)
                gates = _of_entries(graph, w, method.gates(new, {}, count))
                utility = graph.pack(new.values()).astype(state.utility.dtype)
            else:
                new = method.averages(trees.arrays(state.utility), {p: -g[p] * w[p] for p in w})
                inputs = {k.param: (*k.inputs, *k.spatial) for k in graph.kernels}
                gates = method.gates(new, inputs, count)
                utility = trees.replace(state.utility, new)
            xi = noise(jax.random.fold_in(seeding.wrap(self.key, state.key), state.calls), w)

            def moved(path: str, v: jax.Array) -> jax.Array:
                gate = gates.get(path, -1)
                gated = method.gain * gate * (v - method.step_size * method.sigma * xi[path])
                decay = method.step_size * method.weight_decay * w[path]
                return (jnp.where(gate < 0, v, gated) - decay).astype(v.dtype)

            steps = {path: moved(path, v) for path, v in trees.arrays(updates).items()}
            return trees.replace(updates, steps), UPGDState(inner, count, state.key, utility)

        return optax.GradientTransformationExtraArgs(init, update)

    def averages(self, old: Params, new: Params) -> dict[str, jax.Array]:
        """Return the moving averages of the utilities."""
        share = 1 - self.beta_utility
        return {n: (u + share * (new[n] - u)).astype(u.dtype) for n, u in old.items()}

    def gates(
        self, utility: Params, inputs: Mapping[str, tuple[int, ...]], count: jax.Array
    ) -> dict[str, jax.Array]:
        """Return 1 − sigmoid(û) for every utility.

        Args:
          utility: the moving averages.
          inputs: the axes over which the local scaling takes the norm; the last axis by default.
          count: int32 [], the number of averaged utilities.
        """
        if self.scaling == "local":

            def scaled(name: str, u: jax.Array) -> jax.Array:
                axes = inputs.get(name, (u.ndim - 1,) if u.ndim else ())
                norm = jnp.sqrt(jnp.sum(jnp.square(u), axis=axes, keepdims=True))
                return u / jnp.maximum(norm, 1e-12)

        else:
            # As in the authors' code, the maximum is not corrected for its bias, unlike the rest.
            top = jnp.max(jnp.array([jnp.max(u) for u in utility.values()]), initial=-jnp.inf)
            scale = top * (1 - self.beta_utility**count)

            def scaled(name: str, u: jax.Array) -> jax.Array:
                return jnp.where(top == 0, 0, u / scale)

        return {name: jax.nn.sigmoid(-scaled(name, u)) for name, u in utility.items()}


def noise(key: jax.Array, params: Params) -> dict[str, jax.Array]:
    """Return ξ ~ N(0, 1) for all parameters, cut from one long draw, which compiles faster."""
    ends = [0, *itertools.accumulate(p.size for p in params.values())]
    draws = jax.random.normal(key, (ends[-1],), _dtype(params))
    cuts = itertools.pairwise(ends)
    return {
        path: jax.lax.slice(draws, [a], [b]).reshape(p.shape)
        for (path, p), (a, b) in zip(params.items(), cuts, strict=True)
    }


def _dtype(params: Params) -> Any:
    return jnp.result_type(jnp.float32, *params.values())


def _of_entries(graph: UnitGraph, params: Params, gates: Params) -> dict[str, jax.Array]:
    """Lay the gates of units along the parameters that produce them; −1 for entries without."""
    laid: dict[str, jax.Array] = {}
    for layer in graph.layers:
        for link in layer.incoming + layer.bias + layer.scale:
            gate = link.expand(gates[layer.name], params[link.param].ndim, -1)
            laid[link.param] = jnp.maximum(laid.get(link.param, -1), gate)
    return laid
