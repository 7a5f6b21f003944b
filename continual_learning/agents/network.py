"""A network with its units: what reset methods and diagnostics need of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from continual_learning.diagnostics import combined, plasticity_metrics, rank_metrics, totals
from continual_learning.optim import UnitGraph, trace_units

Metrics = dict[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class Network:
    """A module that reads vectors.

    Attributes:
      module: [batch, inputs] -> [batch, outputs].
      inputs: entries of what it reads.
      units: its hidden units.
      forward: (params, [batch, inputs]) -> (outputs, features, pre-activations).
    """

    module: nn.Module
    inputs: int
    units: UnitGraph
    forward: Callable[[Any, jax.Array], tuple[jax.Array, Metrics, Metrics]]

    @classmethod
    def of(cls, module: nn.Module, inputs: int, outputs: int, name: str) -> Network:
        """Traces the units of a module, which must have that many outputs."""
        example = jax.ShapeDtypeStruct((1, inputs), jnp.float32)
        shapes = jax.eval_shape(module.init, jax.random.key(0), example)
        found = jnp.shape(jax.eval_shape(module.apply, shapes, example))
        if found != (1, outputs):
            raise ValueError(
                f"The {name} network must have {outputs} outputs: [1, {inputs}] gave {list(found)}."
            )
        units = trace_units(module.apply, shapes, example)
        return cls(module, inputs, units, units.with_features(module.apply))

    def init(self, key: jax.Array) -> Any:
        """First parameters."""
        return self.module.init(key, jnp.zeros((1, self.inputs)))

    def apply(self, params: Any, x: jax.Array) -> jax.Array:
        """[…, inputs] -> […, outputs]."""
        return jnp.asarray(self.module.apply(params, x))


def plasticity(networks: Mapping[str, Network], params: Mapping[str, Any], x: jax.Array) -> Metrics:
    """Shares of dormant, low-variance and linearised units of two networks.

    Args:
      networks: two, by name.
      params: of each.
      x: [batch, inputs], what they are measured on.

    Returns:
      "NAME_dormant_ratio" and so on of each network, and "dormant_ratio" and so on, the mean of
      both.
    """

    def measure(features: Metrics, preactivations: Metrics) -> Any:
        return plasticity_metrics(features, preactivations)

    return _of_both(networks, params, x, measure)


def ranks(networks: Mapping[str, Network], params: Mapping[str, Any], x: jax.Array) -> Metrics:
    """Ranks of the features, summed over layers; named as in `plasticity`."""
    return _of_both(networks, params, x, lambda features, _: rank_metrics(features))


def _of_both(
    networks: Mapping[str, Network],
    params: Mapping[str, Any],
    x: jax.Array,
    measure: Callable[[Metrics, Metrics], Any],
) -> Metrics:
    found = {
        name: totals(measure(*network.forward(params[name], x)[1:]))
        for name, network in networks.items()
    }
    named = {f"{name}_{key}": v for name, of in found.items() for key, v in of.items()}
    both = combined(*found.values())
    return {key: jnp.asarray(value) for key, value in {**named, **both}.items()}
