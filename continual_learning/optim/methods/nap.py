"""Normalize-and-Project (Lyle et al., 2024)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import optax

from continual_learning.optim import every_step, trees
from continual_learning.optim.every_step import Arrays, per_copy
from continual_learning.optim.method import Initial, ResetMethod, choice, reset_method
from continual_learning.optim.units import UnitGraph

Group = tuple[tuple[str, tuple[int, ...]], ...]  # (path, axes of copies) of parameters


@reset_method
class NaP(ResetMethod):
    """Projects kernels to their initial norms after every step: W ← W · ‖W₀‖ / ‖W‖.

    In a network that normalizes what its hidden layers produce, the norm of a kernel changes
    nothing but the effective learning rate, which shrinks as the norm grows; the projection keeps
    it constant. The network itself must have the layer norms, before every nonlinearity. The method
    is that of Clare Lyle, Zeyu Zheng, Khimya Khetarpal, James Martens, Hado van Hasselt, Razvan
    Pascanu and Will Dabney (NeurIPS 2024, arXiv:2407.01800).

    Attributes:
      scale_offset: learned scales σ and offsets μ of norms. "project" keeps the joint norm
        √(‖σ‖² + ‖μ‖²) of each norm at its initial value, √units as a rule; "free" leaves them to
        the inner optimizer.
      project_output: whether kernels of output layers are projected, too. They are not
        scale-invariant, since no norm follows them.
    """

    scale_offset: str = choice("project", "project", "free")
    project_output: bool = choice(False)

    resets: ClassVar[bool] = False

    def wrap(
        self, tx: optax.GradientTransformation, units: Callable[[Any], UnitGraph]
    ) -> optax.GradientTransformation:
        """Return the inner optimizer with a projection after its step."""

        def start(params: Any) -> Initial:
            leaves = trees.arrays(params)
            return Initial(every_step.flat(_norm(g, leaves) for g in self._groups(units(params))))

        def project(state: Initial, params: Any, after: Arrays) -> Arrays:
            groups = self._groups(units(params))
            norms = [_norm(group, after) for group in groups]
            initial = every_step.cut(state.value, [norm.size for norm in norms])
            new: dict[str, jax.Array] = {}
            for group, norm, wanted in zip(groups, norms, initial, strict=True):
                # A kernel that began as zeros has no norm to keep.
                known = (norm > 0) & (wanted > 0)
                factor = jnp.where(known, wanted / jnp.where(known, norm, 1), 1)
                for path, copies in group:
                    w = every_step.wide(after[path])
                    new[path] = w * per_copy(factor, copies, w.shape)
            return new

        return every_step.projected(tx, start, project)

    def _groups(self, graph: UnitGraph) -> list[Group]:
        """Return the parameters that share a norm: kernels alone, scales with their offsets."""
        kernels = graph.kernels if self.project_output else every_step.hidden(graph)
        groups: list[Group] = [((kernel.param, kernel.copies),) for kernel in kernels]
        return groups + _norms(graph) if self.scale_offset == "project" else groups

    def due(self, state: tuple[()], t: jax.Array) -> jax.Array:
        """Return False."""
        return jnp.zeros((), bool)


def _norms(graph: UnitGraph) -> list[Group]:
    """Return scales and offsets of hidden layers' norms; those of one norm have one parent."""
    biases = {kernel.bias for kernel in graph.kernels}
    copies = {kernel.param: len(kernel.copies) for kernel in graph.kernels}
    found: dict[tuple[str, str], dict[str, tuple[int, ...]]] = {}
    seen: set[str] = set()
    for layer in graph.layers:
        leading = tuple(range(copies.get(layer.incoming[0].param, 0)))
        paths = [link.param for link in layer.scale + layer.bias if link.param not in biases]
        for path in dict.fromkeys(paths):
            if path not in seen:
                seen.add(path)
                own = leading if len(graph.shapes[path]) > len(leading) else ()
                found.setdefault((layer.name, path.rpartition("/")[0]), {})[path] = own
    return [tuple(group.items()) for group in found.values()]


def _norm(group: Group, params: Arrays) -> jax.Array:
    """Return the joint norm of some parameters for each of their copies."""

    def squares(path: str, copies: tuple[int, ...]) -> jax.Array:
        w = every_step.wide(params[path])
        others = tuple(a for a in range(w.ndim) if a not in copies)
        return jnp.sum(jnp.square(w), axis=others).reshape(-1)

    return jnp.sqrt(sum((squares(*member) for member in group), start=jnp.zeros(())))
