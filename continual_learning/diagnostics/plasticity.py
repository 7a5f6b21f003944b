"""Shares of hidden units that have stopped contributing: dormant, linearized, low-variance.

Arrays are one layer's `[batch, *positions, units]`; a unit is one entry of the last axis, so a
convolutional channel counts once and its positions are averaged like samples. Give hidden layers
only: the outputs of the output layer are not units.

Every inequality is strict. A share is NaN where its input is not finite: a comparison with NaN is
False, so the share would otherwise read 0 for a network that has diverged.
"""

import math
from collections.abc import Mapping
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from continual_learning.diagnostics.layers import TOTAL, as_rows, check_layers, check_range

# Keeps the score of an all-zero layer at 0 instead of 0/0.
_EPSILON = 1e-9

_Tree = TypeVar("_Tree")


def dormant_score(h: ArrayLike) -> Array:
    """Return each unit's mean |activation| relative to the layer's mean (Sokar et al. 2023).

    Args:
        h: Features, `[batch, *positions, units]`.

    Returns:
        `[units]`; 1 on average, and 0 for every unit of an all-zero layer.
    """
    return _relative(jnp.abs(as_rows(h)).mean(axis=0))


def variance_score(h: ArrayLike) -> Array:
    """Return each unit's variance over samples and positions relative to the layer's mean variance.

    Args:
        h: Features, `[batch, *positions, units]`.

    Returns:
        `[units]`; 1 on average, and 0 for every unit of a constant layer or a single row.
    """
    rows = as_rows(h)
    # Without the difference from the first row, rounding would give a large constant some variance.
    return _relative((rows - rows[:1]).var(axis=0))


def positive_fraction(z: ArrayLike) -> Array:
    """Return the share of samples and positions at which each unit's pre-activation is positive.

    Args:
        z: Pre-activations, `[batch, *positions, units]`.

    Returns:
        `[units]`, in [0, 1]; NaN for a unit with a pre-activation that is not finite.
    """
    rows = as_rows(z)
    return _positives(rows) / len(rows)


def dormant_ratio(h: ArrayLike, tau: ArrayLike = 0.1) -> Array:
    """Return the share of dormant units: `dormant_score(h) < tau`.

    This measure is for rectifiers; see `low_variance_ratio` for other activations.

    Args:
        h: Features, `[batch, *positions, units]`.
        tau: Threshold τ, at least 0.

    Returns:
        Scalar in [0, 1]; 1 for an all-zero layer, NaN if a feature is not finite.
    """
    return _below(dormant_score(h), tau).mean()


def low_variance_ratio(h: ArrayLike, tau: ArrayLike = 0.1) -> Array:
    """Return the share of units that hardly depend on the input: `variance_score(h) < tau`.

    This is the counterpart of `dormant_ratio` for activations that do not rectify: a saturated tanh
    unit contributes as little as a dead ReLU, but is far from zero.

    Args:
        h: Features, `[batch, *positions, units]`.
        tau: Threshold τ, at least 0.

    Returns:
        Scalar in [0, 1]; 1 for a constant layer, NaN if a feature is not finite.
    """
    return _below(variance_score(h), tau).mean()


def linearized_ratio(z: ArrayLike, theta: ArrayLike = 0.9) -> Array:
    """Return the share of units that act linearly: `positive_fraction(z) > theta`.

    Args:
        z: Pre-activations, `[batch, *positions, units]`.
        theta: Threshold θ, between 0 and 1.

    Returns:
        Scalar in [0, 1]; NaN if a pre-activation is not finite.
    """
    return _linearized(z, theta).mean()


def plasticity_metrics(
    features: Mapping[str, ArrayLike],
    preactivations: Mapping[str, ArrayLike] | None = None,
    *,
    tau: ArrayLike = 0.1,
    theta: ArrayLike = 0.9,
) -> dict[str, dict[str, Array]]:
    """Measure the plasticity of a network, layer by layer and over all hidden units.

    Args:
        features: Hidden layers by name, each `[batch, *positions, units]`.
        preactivations: The same layers before their activation; without them there is no
            linearized ratio.
        tau: Threshold of the dormant and low-variance ratios.
        theta: Threshold of the linearized ratio.

    Returns:
        `{"dormant_ratio": …, "low_variance_ratio": …, "linearized_ratio": …}`, each a dict with
        one scalar per layer and, under "total", the share of all units of the network.
    """
    check_layers(features, "features")
    measures = {
        "dormant_ratio": {n: _below(dormant_score(h), tau) for n, h in features.items()},
        "low_variance_ratio": {n: _below(variance_score(h), tau) for n, h in features.items()},
    }
    if preactivations is not None:
        check_layers(preactivations, "preactivations")
        _check_same_layers(features, preactivations)
        measures["linearized_ratio"] = {n: _linearized(z, theta) for n, z in preactivations.items()}
    return {measure: _ratios(flags) for measure, flags in measures.items()}


def totals(metrics: Mapping[str, Mapping[str, ArrayLike]]) -> dict[str, ArrayLike]:
    """Return the whole-network value of each measure.

    Args:
        metrics: The result of `plasticity_metrics` or `rank_metrics`, or
            `{"gradient_norm": norm_metrics(gradients)}`.

    Returns:
        One scalar per measure.
    """
    return {measure: layers[TOTAL] for measure, layers in metrics.items()}


def combined(actor: _Tree, critic: _Tree) -> _Tree:
    """Return the mean of the actor's and the critic's metrics, leaf by leaf.

    Args:
        actor: Any tree of metrics.
        critic: A tree of the same structure.

    Returns:
        A tree of that structure.
    """
    structures = jax.tree.structure(actor), jax.tree.structure(critic)
    if structures[0] != structures[1]:
        raise ValueError(
            f"The metrics to combine have different structures, {structures[0]} and "
            f"{structures[1]}, but must have the same measures and layers. Networks with different "
            "layers have only their totals in common: combined(totals(actor), totals(critic))."
        )
    return jax.tree.map(lambda a, b: (a + b) / 2, actor, critic)


def _relative(values: Array) -> Array:
    """Return each unit's value over the layer's mean: `[units]` to `[units]`."""
    return values / (values.mean() + _EPSILON)


def _positives(rows: Array) -> Array:
    """Return the number of each unit's positive entries, NaN if one is not finite: `[units]`."""
    return jnp.where(jnp.isfinite(rows), rows > 0, jnp.nan).astype(rows.dtype).sum(axis=0)


def _below(score: Array, tau: ArrayLike) -> Array:
    """Return 1 for units with a score below τ, 0 for others, NaN where it is NaN: `[units]`."""
    check_range("tau", tau, 0, math.inf)
    return jnp.where(jnp.isnan(score), score, score < tau)


def _linearized(z: ArrayLike, theta: ArrayLike) -> Array:
    """Return 1 for linearized units, 0 for others, NaN where that is unknown: `[units]`."""
    check_range("theta", theta, 0, 1)
    rows = as_rows(z)
    positives = _positives(rows)
    # Counts are compared, not fractions: a compiled division multiplies by the rounded reciprocal,
    # which in float32 puts 9 of 10 above 0.9. The cast rounds 0.7 · 90 = 62.99999999999999 to 63.
    limit = jnp.asarray(theta * len(rows), jnp.float32)
    return jnp.where(jnp.isnan(positives), positives, positives > limit)


def _ratios(flags: Mapping[str, Array]) -> dict[str, Array]:
    """Return the means of `[units]` flags: over all units of all layers, and layer by layer."""
    total = jnp.concatenate(list(flags.values())).mean()
    return {TOTAL: total} | {name: flag.mean() for name, flag in flags.items()}


def _check_same_layers(
    features: Mapping[str, ArrayLike], preactivations: Mapping[str, ArrayLike]
) -> None:
    """Raise a ValueError unless both have the same layers with the same shapes."""
    if features.keys() != preactivations.keys():
        raise ValueError(
            f"preactivations has the layers {sorted(preactivations)}, but features has "
            f"{sorted(features)}. Give both for the same hidden layers."
        )
    for name, h in features.items():
        z = preactivations[name]
        if jnp.shape(h) != jnp.shape(z):
            raise ValueError(
                f"preactivations[{name!r}] has shape {jnp.shape(z)}, but features[{name!r}] has "
                f"shape {jnp.shape(h)}. Give both from the same forward pass, before pooling or "
                "flattening."
            )
