"""Per-unit scores that several methods share, as arrays [layers, width]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.optim.links import Layer, Link
from continual_learning.optim.units import UnitGraph

Arrays = Mapping[str, jax.Array]


def gradient_magnitude(graph: UnitGraph, grads: Arrays, dtype: Any) -> jax.Array:
    """Return the mean |gradient| over each unit's incoming entries, of all its producers.

    Args:
      graph: the units.
      grads: {path: array}.
      dtype: the dtype of the result.

    Returns:
      [layers, width].
    """
    rows: dict[str, jax.Array] = {}
    # Layers of equal shape are reduced together, in one operation instead of one per layer.
    for layers in _alike(graph, grads):
        link = layers[0].incoming[0]
        stacked = jnp.stack([grads[layer.incoming[0].param] for layer in layers])
        sums = jax.vmap(lambda g, link=link: link.slice_sums(g, dtype))(jnp.abs(stacked))
        means = sums.reshape(len(layers), -1) / (stacked[0].size // layers[0].size)
        rows.update({layer.name: means[i] for i, layer in enumerate(layers)})

    def of(layer: Layer) -> jax.Array:
        total, entries = jnp.zeros((layer.size,), dtype), np.zeros(layer.size)
        for link in layer.incoming:
            grad = jnp.abs(grads[link.param])
            total += link.collect(link.slice_sums(grad, dtype), layer.size)
            entries += link.entries(grad.shape, layer.size)
        return total / jnp.asarray(np.maximum(entries, 1), dtype)

    return graph.pack(rows[r.name] if r.name in rows else of(r) for r in graph.layers)


def _alike(graph: UnitGraph, grads: Arrays) -> list[list[Layer]]:
    """Group layers with one plain producer by its shape, dtype, axes and sharding."""
    groups: dict[Any, list[Layer]] = {}
    for layer in graph.layers:
        link = layer.incoming[0]
        if len(layer.incoming) == 1 and link.is_plain(layer.size):
            groups.setdefault((jax.typeof(grads[link.param]), link.axes), []).append(layer)
    return [group for group in groups.values() if len(group) > 1]


def feature_means(graph: UnitGraph, features: Arrays, dtype: Any) -> tuple[jax.Array, jax.Array]:
    """Return the means over batch and positions of f and of |f|, both [layers, width].

    Args:
      graph: the units.
      features: {layer: [batch, *positions, units]}.
      dtype: the dtype of the results.
    """

    def mean(f: jax.Array) -> jax.Array:
        return jnp.mean(f, axis=tuple(range(f.ndim - 1)), dtype=dtype)

    given = [features[layer.name] for layer in graph.layers]
    return graph.pack(map(mean, given)), graph.pack(mean(jnp.abs(f)) for f in given)


def contribution(graph: UnitGraph, params: Arrays, features: Arrays, dtype: Any) -> jax.Array:
    """Return the mean of |w| · mean_b|f| over each unit's outgoing entries, [layers, width].

    Where a dense layer reads a flattened conv layer, an entry is multiplied with the feature at the
    position that it reads.

    Args:
      graph: the units.
      params: {path: array}.
      features: {layer: [batch, *positions, units]}.
      dtype: the dtype of the result.
    """

    def of(layer: Layer) -> jax.Array:
        magnitude = jnp.abs(features[layer.name])
        overall = jnp.mean(magnitude, axis=tuple(range(magnitude.ndim - 1)), dtype=dtype)
        total, entries = jnp.zeros((layer.size,), dtype), np.zeros(layer.size)
        for link in layer.outgoing:
            sums = link.slice_sums(jnp.abs(params[link.param]), dtype)
            entries += link.entries(params[link.param].shape, layer.size)
            if link.position is None:
                total += link.collect(sums, layer.size) * overall
            else:
                read = _positions(layer, link, link.position, magnitude)
                at = jnp.mean(magnitude, axis=0, dtype=dtype).reshape(read, -1, layer.size)
                at = jnp.mean(at, axis=1).reshape(-1)
                where = np.where(link.index < 0, 0, link.position * layer.size + link.index)
                total += link.collect(sums * at[where], layer.size)
        return total / jnp.asarray(np.maximum(entries, 1), dtype)

    return graph.pack(map(of, graph.layers))


def outgoing_product(graph: UnitGraph, params: Arrays, grads: Arrays, dtype: Any) -> jax.Array:
    """Return Σ g·w over each unit's outgoing entries, which is ∂L/∂s for a factor s = 1 of it.

    Args:
      graph: the units.
      params: {path: array}.
      grads: {path: array}.
      dtype: the dtype of the result.

    Returns:
      [layers, width].
    """

    def of(layer: Layer) -> jax.Array:
        total = jnp.zeros((layer.size,), dtype)
        for link in layer.outgoing:
            product = grads[link.param] * params[link.param]
            total += link.collect(link.slice_sums(product, dtype), layer.size)
        return total

    return graph.pack(of(layer) for layer in graph.layers)


def _positions(layer: Layer, link: Link, position: np.ndarray, feature: jax.Array) -> int:
    """Return the number of positions that a link reads; raise an error if features have others.

    A unit may have several features at a position, all of which are read there: the two halves of
    a concatenated rectifier, which lie side by side.
    """
    given, read = int(np.prod(feature.shape[1:-1])), int(position.max()) + 1
    several = int(np.sum(link.index >= 0)) // (read * layer.size)
    if given not in (read, several * read):
        raise ValueError(
            f"features[{layer.name!r}] of shape {list(feature.shape)} has {given} positions, but "
            f"{link.param!r} reads {read}. If pooling lies between, give the features after it."
        )
    return read


def normalized(graph: UnitGraph, score: jax.Array, eps: float) -> jax.Array:
    """Return each score over the mean of its layer, with 0 in the padding.

    Args:
      graph: the units.
      score: [layers, width].
      eps: added to the mean.
    """
    return jnp.where(graph.valid, score / (graph.layer_mean(score) + eps), 0)


def lowest(score: jax.Array, number: jax.Array, eligible: jax.Array) -> jax.Array:
    """Return the eligible units of lowest score in each layer, ties by index, bool [layers, width].

    Args:
      score: [layers, width].
      number: number of units of each layer, [layers, 1].
      eligible: bool [layers, width].
    """
    score = jnp.where(eligible, score, jnp.inf)
    width = score.shape[1]
    if width <= 1024:  # counting is one fused reduction; sorting costs several passes
        before = score[:, :, None] < score[:, None, :]
        earlier = np.triu(np.ones((width, width), bool), 1)[None]
        tied = (score[:, :, None] == score[:, None, :]) & earlier
        rank = jnp.sum(before | tied, axis=1, dtype=jnp.int32)
    else:
        rank = jnp.argsort(jnp.argsort(score, axis=1, stable=True), axis=1)
    return (rank < number) & eligible
