"""Ranks of a layer's features: the number of directions that they span, by four definitions.

The matrix is `[samples · positions, units]`, not centered. For convolutional layers the papers that
define these ranks leave the matrix open; with every position as a sample, a rank is at most the
number of channels, the same units that the dormant ratio counts.

All ranks are floats, 0 for an all-zero layer, and NaN if a feature is not finite. Each call costs a
singular value decomposition: run `rank_metrics` rarely, and prefer it to the single ranks, since it
decomposes each layer once.
"""

import math
from collections.abc import Mapping

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import entr
from jax.typing import ArrayLike

from continual_learning.diagnostics.layers import TOTAL, as_rows, check_layers, check_range


def singular_values(h: ArrayLike) -> Array:
    """Return the singular values of one layer's features.

    Args:
        h: Features, `[batch, *positions, units]`.

    Returns:
        `[min(batch · positions, units)]`, largest first; all NaN if a feature is not finite.
    """
    rows = as_rows(h)
    finite = jnp.isfinite(rows).all()
    # The result of a decomposition with NaN depends on the backend, so the decomposition gets 0.
    values = jnp.linalg.svd(jnp.where(finite, rows, 0), compute_uv=False)
    return jnp.where(finite, values, jnp.nan)


def srank(h: ArrayLike, delta: ArrayLike = 0.01) -> Array:
    """Return how many singular values make up `1 - delta` of their sum (Kumar et al. 2021).

    Args:
        h: Features, `[batch, *positions, units]`.
        delta: Share of the sum δ that may be left out, between 0 and 1.

    Returns:
        Scalar, a whole number.
    """
    return _srank(singular_values(h), delta)


def stable_rank(h: ArrayLike) -> Array:
    """Return the sum of the squared singular values over the largest squared.

    Args:
        h: Features, `[batch, *positions, units]`.

    Returns:
        Scalar; never more than the rank, and small when one direction dominates.
    """
    return _stable_rank(singular_values(h))


def effective_rank(h: ArrayLike) -> Array:
    """Return the exponential of the singular values' entropy (Roy & Vetterli 2007).

    The singular values are divided by their sum first.

    Args:
        h: Features, `[batch, *positions, units]`.

    Returns:
        Scalar.
    """
    return _effective_rank(singular_values(h))


def feature_rank(h: ArrayLike, epsilon: ArrayLike = 0.01) -> Array:
    """Return the number of singular values of `h / √rows` above a threshold (Lyle et al. 2022).

    This rank alone depends on the scale of the features.

    Args:
        h: Features, `[batch, *positions, units]`; rows are samples times positions.
        epsilon: Threshold ε, at least 0.

    Returns:
        Scalar, a whole number.
    """
    return _feature_rank(singular_values(h), _num_rows(h), epsilon)


def rank_metrics(
    features: Mapping[str, ArrayLike], *, delta: ArrayLike = 0.01, epsilon: ArrayLike = 0.01
) -> dict[str, dict[str, Array]]:
    """Compute all four ranks of a network's layers from one decomposition per layer.

    Args:
        features: Hidden layers by name, each `[batch, *positions, units]`.
        delta: δ of `srank`.
        epsilon: ε of `feature_rank`.

    Returns:
        `{"srank": …, "stable_rank": …, "effective_rank": …, "feature_rank": …}`, each a dict with
        one scalar per layer and, under "total", their sum.
    """
    check_layers(features, "features")
    spectra = {name: singular_values(h) for name, h in features.items()}
    by_measure = {
        "srank": {name: _srank(s, delta) for name, s in spectra.items()},
        "stable_rank": {name: _stable_rank(s) for name, s in spectra.items()},
        "effective_rank": {name: _effective_rank(s) for name, s in spectra.items()},
        "feature_rank": {
            name: _feature_rank(s, _num_rows(features[name]), epsilon)
            for name, s in spectra.items()
        },
    }
    return {
        measure: {TOTAL: jnp.stack(list(layers.values())).sum(), **layers}
        for measure, layers in by_measure.items()
    }


def _srank(s: Array, delta: ArrayLike) -> Array:
    check_range("delta", delta, 0, 1)
    sums = jnp.cumsum(s)
    return _unless_zero(s, 1 + (sums < (1 - delta) * sums[-1]).sum())


def _stable_rank(s: Array) -> Array:
    # The division comes before the squares, so that features of any scale neither overflow nor
    # vanish.
    return jnp.square(_over(s, s[0])).sum()


def _effective_rank(s: Array) -> Array:
    return _unless_zero(s, jnp.exp(entr(_over(s, s.sum())).sum()))


def _feature_rank(s: Array, num_rows: int, epsilon: ArrayLike) -> Array:
    check_range("epsilon", epsilon, 0, math.inf)
    return _unless_zero(s, (s > epsilon * math.sqrt(num_rows)).sum())


def _over(s: Array, scale: Array) -> Array:
    """Return `s / scale`, and 0 where the layer is all zero."""
    return s / jnp.where(scale == 0, 1, scale)


def _unless_zero(s: Array, rank: Array) -> Array:
    """Return the rank as a float: 0 for an all-zero layer, NaN for one that is not finite."""
    # Adding 0·s[0] carries a NaN into counts, since comparisons with it are False.
    return jnp.where(s[0] == 0, 0, rank + 0 * s[0])


def _num_rows(h: ArrayLike) -> int:
    return math.prod(jnp.shape(h)[:-1])
