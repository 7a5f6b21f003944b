"""The parameter entries that belong to each hidden unit.

A *unit* is one output of a hidden layer (a conv channel counts as one). Its *incoming* entries
produce it, its *outgoing* entries are all kernel entries of later layers that read it. A
`UnitGraph` holds this as static index arrays, so that a compiled step needs plain gathers and
reductions alone.

The per-unit numbers of a whole network are one padded array [layers, width], where `width` is the
size of the largest layer: they take few fused operations at any depth.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.optim import drawing, trees
from continual_learning.optim.links import Kernel, Layer, Link

Units = Mapping[str, Any]  # {layer name: array[size]}


@dataclasses.dataclass(frozen=True, eq=False)
class UnitGraph:
    """Every hidden unit of a model with its incoming, bias, scale and outgoing entries.

    Attributes:
      layers: hidden layers in order from the input.
      kernels: all kernels in order from the input, the output layer's included.
      shapes: shape of every parameter, by path.
      treedef: structure of the parameter tree.
      untraced: (parameter, reason) for the parameters that are left alone.
      output: parameters of the output layer, which has no units.
      pairs: whether channels of queries and keys are units.
    """

    layers: tuple[Layer, ...]
    kernels: tuple[Kernel, ...]
    shapes: Mapping[str, tuple[int, ...]]
    treedef: Any
    untraced: tuple[tuple[str, str], ...] = ()
    output: tuple[str, ...] = ()
    pairs: bool = False

    def __post_init__(self):
        names = [layer.name for layer in self.layers]
        if len(set(names)) != len(names):
            raise ValueError(f"Layer names must differ, got {names}.")
        for layer in self.layers:
            for link in layer.links():
                self._check_link(layer, link)

    def _check_link(self, layer: Layer, link: Link) -> None:
        shape = self.shapes.get(link.param)
        if shape is None:
            raise ValueError(
                f"Layer {layer.name!r} refers to {link.param!r}, which is not a parameter. "
                f"Parameters: {', '.join(self.shapes)}."
            )
        if max(link.axes, default=-1) >= len(shape) or (
            tuple(shape[a] for a in link.axes) != link.index.shape
        ):
            raise ValueError(
                f"Layer {layer.name!r}: an index of shape {link.index.shape} over axes "
                f"{link.axes} does not fit {link.param!r} of shape {shape}."
            )
        if link.index.size and not -1 <= link.index.min() <= link.index.max() < layer.size:
            raise ValueError(
                f"Layer {layer.name!r}: the index of {link.param!r} must lie in "
                f"[-1, {layer.size - 1}], got [{link.index.min()}, {link.index.max()}]."
            )

    # Sizes -----------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the hidden layers, from the input."""
        return tuple(layer.name for layer in self.layers)

    @functools.cached_property
    def sizes(self) -> np.ndarray:
        """Units per layer, int [layers]."""
        return np.array([layer.size for layer in self.layers], np.int32)

    @property
    def width(self) -> int:
        """Size of the largest layer."""
        return max((layer.size for layer in self.layers), default=0)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of a per-unit array of the whole network: (layers, width)."""
        return len(self.layers), self.width

    @functools.cached_property
    def valid(self) -> np.ndarray:
        """Whether an entry is a unit rather than padding, bool [layers, width]."""
        return np.arange(self.width)[None, :] < self.sizes[:, None]

    # Per-unit arrays -------------------------------------------------------------------------

    def pack(self, rows: Iterable[jax.Array], fill: Any = 0) -> jax.Array:
        """Stack one array [size] per layer, in order, into [layers, width], padded with `fill`."""
        if not self.layers:
            return jnp.zeros((0, 0))
        padded = [
            jnp.pad(replicated(row), (0, self.width - row.shape[0]), constant_values=fill)
            for row in rows
        ]
        return jnp.stack(padded)

    def unpack(self, array: jax.Array) -> dict[str, jax.Array]:
        """Split an array [layers, width] into {layer: [size]}."""
        return {layer.name: array[i, : layer.size] for i, layer in enumerate(self.layers)}

    def layer_mean(self, array: jax.Array) -> jax.Array:
        """Return the mean over the units of each layer: [layers, width] -> [layers, 1]."""
        total = jnp.sum(jnp.where(self.valid, array, 0), axis=1, keepdims=True)
        return total / self.sizes[:, None].astype(array.dtype)

    def layer_finite(self, array: jax.Array) -> jax.Array:
        """Return whether all units of a layer are finite: [layers, width] -> bool [layers, 1]."""
        return jnp.all(jnp.isfinite(array) | ~self.valid, axis=1, keepdims=True)

    # Masks -----------------------------------------------------------------------------------

    def incoming(self, units: Units) -> Any:
        """Return a tree like the parameters, True on the kernel entries that produce `units`."""
        return self._mask(units, lambda layer: layer.incoming)

    def bias(self, units: Units) -> Any:
        """Return a tree like the parameters, True on biases and norm parameters of `units`."""
        return self._mask(units, lambda layer: layer.bias + layer.scale)

    def outgoing(self, units: Units) -> Any:
        """Return a tree like the parameters, True on the kernel entries that read `units`."""
        return self._mask(units, lambda layer: layer.outgoing)

    def _mask(self, units: Units, links_of) -> Any:
        self.check_names(units, "units")
        masks = {path: jnp.zeros(shape, bool) for path, shape in self.shapes.items()}
        for layer in self.layers:
            if layer.name not in units:
                continue
            chosen = jnp.asarray(units[layer.name])
            if chosen.shape != (layer.size,) or chosen.dtype != bool:
                raise ValueError(
                    f"units[{layer.name!r}] must be bool [{layer.size}], "
                    f"got {chosen.dtype} {list(chosen.shape)}."
                )
            for link in links_of(layer):
                masks[link.param] |= link.expand(chosen, len(self.shapes[link.param]), False)
        return self.treedef.unflatten(masks[path] for path in self._paths)

    @functools.cached_property
    def _paths(self) -> tuple[str, ...]:
        """Paths of the parameters in tree order."""
        return tuple(trees.named_leaves(self.treedef.unflatten(range(self.treedef.num_leaves))))

    # Checks ----------------------------------------------------------------------------------

    def check_names(self, given: Mapping[str, Any], what: str) -> None:
        """Raise a ValueError if `given` has a key that is not the name of a layer."""
        known = {*self.names, *(name for name, _ in self.untraced)}
        unknown = sorted(set(given) - known)
        if unknown:
            raise ValueError(
                f"{what} names unknown layers {unknown}. Layers of this network: "
                f"{list(self.names)}."
            )

    def check(self, params: Any) -> None:
        """Raise a ValueError if `params` are not of the model for which the graph was made."""
        wrong = []
        found = trees.named_leaves(params)
        for path in {**self.shapes, **found}:
            if trees.is_masked_away(path, found):
                continue
            ours = self.shapes.get(path)
            theirs = jnp.shape(found[path]) if path in found else None
            if ours != theirs:
                wrong.append(f"{path}: graph {ours}, params {theirs}")
        if wrong:
            raise ValueError(
                "The unit graph was made for another model:\n  "
                + "\n  ".join(wrong[:5])
                + ("\n  …" if len(wrong) > 5 else "")
                + "\nMake it from these parameters, or pass `units=` a callable that makes it."
            )

    def restrict(self, present: Iterable[str]) -> UnitGraph:
        """Return the graph of the parameters in `present`; an outer wrapper has masked the others.

        A layer stays only if all its incoming and outgoing kernels are present: a fresh unit whose
        outgoing entries cannot be changed would disturb the network.
        """
        present = set(present)
        if present >= set(self.shapes):
            return self

        def kept(links: tuple[Link, ...]) -> tuple[Link, ...]:
            return tuple(link for link in links if link.param in present)

        layers = tuple(
            dataclasses.replace(layer, bias=kept(layer.bias), scale=kept(layer.scale))
            for layer in self.layers
            if all(link.param in present for link in layer.incoming + layer.outgoing)
        )
        kernels = tuple(
            dataclasses.replace(k, bias=k.bias if k.bias in present else None)
            for k in self.kernels
            if k.param in present
        )
        left = {layer.name for layer in layers}
        masked = tuple((name, "masked") for name in self.names if name not in left)
        return dataclasses.replace(
            self, layers=layers, kernels=kernels, untraced=self.untraced + masked
        )

    # Beside the model -------------------------------------------------------------------------

    def with_features(self, apply_fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return `apply_fn` with the activations of every layer beside its result.

        A feature is the value after the last element-wise operation before a weight reads it, not
        pooled and not flattened; a pre-activation is the argument of the nonlinearity (so it comes
        after a norm that stands before it). Both are taken out of the model's own program: the
        model and its derivatives do not change.

        Args:
          apply_fn: the function that the graph was traced from, or one that does more, such as
            returning new batch statistics as well. The first axis of its inputs is the batch.

        Returns:
          `(params, *inputs) -> (out, features, preactivations)`, the latter two {layer: [batch,
          *positions, units]}. Call it within `jax.jit`.
        """
        from continual_learning.optim.tracing.features import with_features

        return with_features(self, apply_fn)

    def per_sample_scores(
        self, loss_fn: Callable[..., Any], *, has_aux: bool = False
    ) -> Callable[..., Any]:
        """Return a function for loss, gradients and the scores of `CPR(score="per_sample")`.

        It takes one backward pass. A unit's score is the mean over samples of the norm of the
        gradient of its incoming entries. It is |δ|·‖h‖ where a dense layer sees each sample once;
        elsewhere it comes from the kernel's gradient of each sample, a few samples at a time.

        Args:
          loss_fn: `(params, *inputs) -> loss`, or `-> (loss, aux)` with `has_aux`. The loss is a
            mean over samples that do not affect one another.
          has_aux: as in `jax.value_and_grad`.

        Returns:
          `(params, *inputs) -> (loss or (loss, aux), grads, sample_scores)`, the last one {layer:
          [units]}. Call it within `jax.jit`.
        """
        from continual_learning.optim.tracing.sample_scores import per_sample_scores

        return per_sample_scores(self, loss_fn, has_aux)

    # Pictures --------------------------------------------------------------------------------

    def __str__(self) -> str:
        """Return a table with a row per layer and the parameters that hold its entries."""
        return drawing.table(self)

    def to_dot(self) -> str:
        """Return a picture of the layers and kernels in the language of Graphviz."""
        return drawing.to_dot(self)

    def to_mermaid(self) -> str:
        """Return the same picture in the language of Mermaid, which Markdown pages can show."""
        return drawing.to_mermaid(self)


def replicated(x: jax.Array) -> jax.Array:
    """Undo a sharding that is part of the type: arrays of different shardings do not stack."""
    sharding = jax.typeof(x).sharding
    return jax.reshard(x, sharding.update(spec=(None,) * x.ndim)) if any(sharding.spec) else x
