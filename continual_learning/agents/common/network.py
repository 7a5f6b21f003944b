"""A network with its units: what reset methods and diagnostics need of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from continual_learning.agents.common.trainer import Hyper, MakeOptimizer
from continual_learning.diagnostics import combined, plasticity_metrics, rank_metrics, totals
from continual_learning.optim import UnitGraph, trace_units

Metrics = dict[str, jax.Array]
Loss = Callable[..., tuple[jax.Array, tuple[Metrics, Any]]]
"""(params, …) -> (loss [], (metrics, features))."""


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


def optimizers_of(
    networks: Mapping[str, Network], makers: Mapping[str, MakeOptimizer], numbers: Sequence[str]
) -> Callable[[Hyper], dict[str, optax.GradientTransformationExtraArgs]]:
    """What makes the optimizers of all networks from hyper-parameters, but for `numbers`."""
    if set(makers) != set(networks):
        wanted = " and ".join(map(repr, networks))
        raise ValueError(f"optimizers must be of {wanted}, got {', '.join(makers)}.")

    def make(hyper: Hyper) -> dict[str, optax.GradientTransformationExtraArgs]:
        rest = {name: number for name, number in hyper.items() if name not in numbers}
        return {name: makers[name](network.units, rest) for name, network in networks.items()}

    return make


def value_and_grads(loss: Loss, scored: UnitGraph | None) -> Callable[..., tuple[Any, Any, Any]]:
    """(params, …) -> ((loss, aux), gradients, per-sample scores of units, None without them)."""
    if scored is not None:
        return scored.per_sample_scores(loss, has_aux=True)
    plain = jax.value_and_grad(loss, has_aux=True)
    return lambda *args: (*plain(*args), None)


def descend(
    loss: Loss,
    tx: optax.GradientTransformationExtraArgs,
    params: Any,
    state: Any,
    *args: Any,
    scored: UnitGraph | None = None,
) -> tuple[Any, Any, Metrics]:
    """One step of an optimizer.

    Args:
      loss: (params, *args) -> (loss [], (metrics, features)).
      tx: given `features=` for reset methods that need them.
      params: of the network.
      state: of the optimizer.
      *args: what else the loss reads.
      scored: the units, where the reset method needs `sample_scores=`. The loss is a mean over
        samples then.

    Returns:
      Parameters, state, and metrics: "loss", "gradient_norm" before any clipping, and those of the
      loss.
    """
    (value, (found, features)), grads, scores = value_and_grads(loss, scored)(params, *args)
    updates, state = tx.update(grads, state, params, features=features, sample_scores=scores)
    metrics = {"loss": value, "gradient_norm": optax.tree.norm(grads), **found}
    return optax.apply_updates(params, updates), state, metrics


def reported(params: Mapping[str, Any], optimizers: Mapping[str, Any], norms: bool) -> Metrics:
    """What is to say of networks and of what their reset methods did.

    Args:
      params: of each network.
      optimizers: state of each optimizer, by `attach_reset_method`.
      norms: whether "NAME_parameter_norm" is wanted.

    Returns:
      "NAME_units_reset" and "NAME_layers_skipped" since the start, and the norms.
    """
    row = {}
    for name, state in optimizers.items():
        row[f"{name}_units_reset"] = state.log.total.sum()
        row[f"{name}_layers_skipped"] = state.log.skipped.sum()
    if norms:
        row |= {f"{name}_parameter_norm": optax.tree.norm(p) for name, p in params.items()}
    return row


def plasticity(
    networks: Mapping[str, Network], params: Mapping[str, Any], inputs: Mapping[str, jax.Array]
) -> Metrics:
    """Shares of dormant, low-variance and linearised units of an actor and its critics.

    Args:
      networks: by name, the actor first.
      params: of each.
      inputs: of each, [batch, inputs], what they are measured on.

    Returns:
      "NAME_dormant_ratio" and so on of each network, and "dormant_ratio" and so on, the mean of
      the actor's and the critics' (of several critics, of their mean).
    """

    def measure(features: Metrics, preactivations: Metrics) -> Any:
        return plasticity_metrics(features, preactivations)

    return _of_all(networks, params, inputs, measure)


def ranks(
    networks: Mapping[str, Network], params: Mapping[str, Any], inputs: Mapping[str, jax.Array]
) -> Metrics:
    """Ranks of the features, summed over layers; named as in `plasticity`."""
    return _of_all(networks, params, inputs, lambda features, _: rank_metrics(features))


def _of_all(
    networks: Mapping[str, Network],
    params: Mapping[str, Any],
    inputs: Mapping[str, jax.Array],
    measure: Callable[[Metrics, Metrics], Any],
) -> Metrics:
    found = {
        name: totals(measure(*network.forward(params[name], inputs[name])[1:]))
        for name, network in networks.items()
    }
    named = {f"{name}_{key}": v for name, of in found.items() for key, v in of.items()}
    actor, *critics = found.values()
    critic = jax.tree.map(lambda *values: sum(values) / len(values), *critics)
    return {key: jnp.asarray(v) for key, v in {**named, **combined(actor, critic)}.items()}
