"""The interface of a training program."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import optax

Hyper = Mapping[str, jax.Array]
"""Hyper-parameters that are arrays, with one value per lane, and replace the experiment's own."""

MakeOptimizer = Callable[[Any, Hyper], optax.GradientTransformationExtraArgs]
"""A function (unit graph, hyper-parameters) -> optimizer."""


COMPILER_OPTIONS = {"xla_gpu_command_buffer_scheduling_mode": "CONCURRENT"}
"""Options for programs that train. The kernels of small networks leave most of a GPU idle, so
independent kernels run side by side, which does not change their results."""

WHOLE_LOOPS = COMPILER_OPTIONS | {
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,"
    "DYNAMIC_SLICE_FUSION,WHILE,CONDITIONAL"
}
"""Options for programs with many short branches and loops: the GPU controls these itself instead of
waiting for the host every time. They gain nothing where single steps are long (physics)."""

QUICK = {"xla_backend_optimization_level": 0}
"""Options for programs with short runs, whose optimization by the compiler takes most of their
time on a CPU."""


@dataclasses.dataclass(frozen=True)
class Trainer:
    """A training run of one seed as two pure functions; a study maps them over seeds.

    Attributes:
      init: a function (key, hyper, data) -> state. The state has only what the next chunk reads.
      chunk: a function (state, hyper, data) -> (state, rows), which trains for a fixed number of
        steps. Rows are {column: [rows]} and include "step" and "task".
      chunks: the number of chunks of the whole run.
      data: arrays that all seeds share, or ().
      headline: the column to show during the run.
      ring: the path in the state of a large part that is like `ReplayState`, or None. A checkpoint
        writes only those of its rows that were added since the checkpoint before.
      options: the options of the compiler for `chunk`.
    """

    init: Callable[[jax.Array, Hyper, Any], Any]
    chunk: Callable[[Any, Hyper, Any], tuple[Any, dict[str, jax.Array]]]
    chunks: int
    data: Any
    headline: str
    ring: str | None = None
    options: Mapping[str, str] = dataclasses.field(default_factory=lambda: COMPILER_OPTIONS)


class Program(Protocol):
    """The run of all seeds at once, as its caller sees it.

    Attributes:
      like: a tree like the state, of `jax.ShapeDtypeStruct`s [lanes, …].
    """

    @property
    def like(self) -> Any:
        """A tree like the state."""
        ...

    @property
    def columns(self) -> list[str]:
        """The names of the columns of rows; nothing is run."""
        ...

    def compile(self, fresh: bool = True, quick: bool = False) -> None:
        """Compile all functions before their first call; nothing is run.

        Args:
          fresh: whether `init` will be called.
          quick: whether to compile faster on a CPU, which makes the run slower.
        """
        ...

    def init(self) -> Any:
        """Return the state before the first chunk, [lanes, …]; ignore any further lanes."""
        ...

    def place(self, state: Any) -> Any:
        """Return a state from a checkpoint, [lanes, …], in the form that `chunk` takes."""
        ...

    def chunk(self, state: Any) -> tuple[Any, dict[str, Any]]:
        """Run the next chunk; return its state, for which it consumes `state`, and its rows.

        Rows are {column: [lanes, rows]}.
        """
        ...

    def memory(self) -> int:
        """Return the bytes that it needs on every device, by `planned_bytes`; nothing is run."""
        ...

    def close(self) -> None:
        """Free the resources of the program."""
        ...


@dataclasses.dataclass(frozen=True)
class HostTrainer:
    """A training run of all seeds whose environments are stepped on the host.

    Attributes:
      program: a function (seeds, their keys [lanes], hyper of arrays [lanes]) -> the program of
        these lanes.
      chunks, headline, ring: the same as in `Trainer`.
    """

    program: Callable[[Sequence[int], jax.Array, Hyper], Program]
    chunks: int
    headline: str
    ring: str | None = None


def planned_bytes(compiled: jax.stages.Compiled) -> int:
    """Return the bytes that a program needs on a device for its arguments, results and the rest."""
    plan = compiled.memory_analysis()
    if plan is None:
        raise NotImplementedError(f"{jax.default_backend()} cannot tell what a program needs.")
    return (
        plan.argument_size_in_bytes
        + plan.output_size_in_bytes
        + plan.temp_size_in_bytes
        - plan.alias_size_in_bytes  # these results reuse the memory of arguments
    )


def strongly_typed(tree: Any) -> Any:
    """Return the same arrays without weak types, which would compile the first chunk twice."""

    def strong(x: jax.Array) -> jax.Array:
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            return x
        return jax.lax.convert_element_type(x, x.dtype)

    return jax.tree.map(strong, tree)
