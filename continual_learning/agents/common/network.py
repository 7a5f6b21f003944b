"""Networks with their units, for reset methods and diagnostics."""

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
"""A function (params, …) -> (loss [], (metrics, features))."""


@dataclasses.dataclass(frozen=True)
class Network:
    """A module that reads vectors.

    Attributes:
      module: the module, [batch, inputs] -> [batch, outputs].
      inputs: the number of entries of an input.
      units: the hidden units.
      forward: a function (params, [batch, inputs]) -> (outputs, features, pre-activations).
    """

    module: nn.Module
    inputs: int
    units: UnitGraph
    forward: Callable[[Any, jax.Array], tuple[jax.Array, Metrics, Metrics]]

    @classmethod
    def of(cls, module: nn.Module, inputs: int, outputs: int, name: str) -> Network:
        """Trace the units of a module.

        Args:
          module: the module.
          inputs: the number of entries of an input.
          outputs: the number of outputs that the module must have.
          name: the name of the network in error messages.

        Raises:
          ValueError: the module has another number of outputs.
        """
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
        """Return initial parameters."""
        return self.module.init(key, jnp.zeros((1, self.inputs)))

    def apply(self, params: Any, x: jax.Array) -> jax.Array:
        """Return the outputs […, outputs] for inputs […, inputs]."""
        return jnp.asarray(self.module.apply(params, x))


def optimizers_of(
    networks: Mapping[str, Network], makers: Mapping[str, MakeOptimizer], numbers: Sequence[str]
) -> Callable[[Hyper], dict[str, optax.GradientTransformationExtraArgs]]:
    """Return a function that makes the optimizers of all networks from hyper-parameters.

    Args:
      networks: the networks by name.
      makers: the functions that make their optimizers, by the same names.
      numbers: the names of the hyper-parameters of the agent, which the optimizers do not get.
    """
    if set(makers) != set(networks):
        wanted = " and ".join(map(repr, networks))
        raise ValueError(f"optimizers must be of {wanted}, got {', '.join(makers)}.")

    def make(hyper: Hyper) -> dict[str, optax.GradientTransformationExtraArgs]:
        rest = {name: number for name, number in hyper.items() if name not in numbers}
        return {name: makers[name](network.units, rest) for name, network in networks.items()}

    return make


def value_and_grads(loss: Loss, scored: UnitGraph | None) -> Callable[..., tuple[Any, Any, Any]]:
    """Return a function (params, …) -> ((loss, aux), gradients, per-sample scores of `scored`).

    The scores are None if `scored` is None.
    """
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
    task: jax.Array | None = None,
    scored: UnitGraph | None = None,
) -> tuple[Any, Any, Metrics]:
    """Make one step of an optimizer.

    Args:
      loss: a function (params, *args) -> (loss [], (metrics, features)).
      tx: the optimizer, which also gets `features=` for its reset method.
      params: the parameters of the network.
      state: the state of the optimizer.
      *args: the other arguments of the loss.
      task: int32 [], the number of the task, which reset methods need that act when it changes.
      scored: the units, if the reset method needs `sample_scores=`; the loss must then be a mean
        over samples.

    Returns:
      The parameters, the state, and metrics: "loss", "gradient_norm" before any clipping, and the
      metrics of the loss.
    """
    (value, (found, features)), grads, scores = value_and_grads(loss, scored)(params, *args)
    updates, state = tx.update(
        grads, state, params, features=features, sample_scores=scores, task=task
    )
    metrics = {"loss": value, "gradient_norm": optax.tree.norm(grads), **found}
    return optax.apply_updates(params, updates), state, metrics


def reported(params: Mapping[str, Any], optimizers: Mapping[str, Any], norms: bool) -> Metrics:
    """Return metrics of the networks and of their reset methods.

    Args:
      params: the parameters of the networks, by name.
      optimizers: the states of their optimizers, which `attach_reset_method` made.
      norms: whether to return "NAME_parameter_norm".

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
    """Return the shares of dormant, low-variance and linearized units of an actor and its critics.

    Args:
      networks: the networks by name, the actor first.
      params: the parameters of the networks.
      inputs: the inputs [batch, inputs] on which the networks are measured.

    Returns:
      "NAME_dormant_ratio" and so on for every network, and "dormant_ratio" and so on, the mean of
      the actor's value and the critic's (or the mean of several critics).
    """

    def measure(features: Metrics, preactivations: Metrics) -> Any:
        return plasticity_metrics(features, preactivations)

    return _of_all(networks, params, inputs, measure)


def ranks(
    networks: Mapping[str, Network], params: Mapping[str, Any], inputs: Mapping[str, jax.Array]
) -> Metrics:
    """Return the ranks of the features, summed over layers.

    The arguments and the names of the results follow `plasticity`.
    """
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
