"""What a training program is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import optax

Hyper = Mapping[str, jax.Array]
"""Hyper-parameters that are arrays, one value per lane, in place of the experiment's own."""

MakeOptimizer = Callable[[Any, Hyper], optax.GradientTransformationExtraArgs]
"""(unit graph, hyper-parameters) -> optimizer."""


COMPILER_OPTIONS = {"xla_gpu_command_buffer_scheduling_mode": "CONCURRENT"}
"""For programs that train. Kernels of small networks leave most of a GPU idle, so those that do not
wait for each other run side by side; each computes what it would alone."""

WHOLE_LOOPS = COMPILER_OPTIONS | {
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,"
    "DYNAMIC_SLICE_FUSION,WHILE,CONDITIONAL"
}
"""For programs with many short branches and loops: the GPU decides them itself, where it would else
wait for the host each time. It gains nothing where single steps are long (physics)."""

QUICK = {"xla_backend_optimization_level": 0}
"""For programs that hardly run: on a CPU most of what they take is their optimisation."""


@dataclasses.dataclass(frozen=True)
class Trainer:
    """A training run of one seed as two pure functions; a study maps them over seeds.

    Attributes:
      init: (key, hyper, data) -> state: everything that the next chunk reads, and nothing else.
      chunk: (state, hyper, data) -> (state, rows): the next stretch of training, always of the
        same length; rows are {column: [rows]} and include "step" and "task".
      chunks: how many make up the whole run.
      data: arrays that all seeds share, or ().
      headline: the column to show while it runs.
      ring: path in the state of a large part that is like `ReplayState`, or None. Of its rows a
        checkpoint writes only those that were added since the one before.
      options: of the compiler, for `chunk`.
    """

    init: Callable[[jax.Array, Hyper, Any], Any]
    chunk: Callable[[Any, Hyper, Any], tuple[Any, dict[str, jax.Array]]]
    chunks: int
    data: Any
    headline: str
    ring: str | None = None
    options: Mapping[str, str] = dataclasses.field(default_factory=lambda: COMPILER_OPTIONS)


class Program(Protocol):
    """The run of all seeds at once, as whoever drives it sees it.

    Attributes:
      like: a tree like the state, of `jax.ShapeDtypeStruct`s [lanes, …].
    """

    @property
    def like(self) -> Any:
        """A tree like the state."""
        ...

    @property
    def columns(self) -> list[str]:
        """Names of the columns of rows; nothing is run."""
        ...

    def compile(self, fresh: bool = True, quick: bool = False) -> None:
        """Compiles now what would be compiled when it is first called; nothing is run.

        Args:
          fresh: whether `init` will be called.
          quick: whether to save compilation at the cost of the run, on a CPU.
        """
        ...

    def init(self) -> Any:
        """The state before the first chunk, [lanes, …]; there may be more lanes, to be ignored."""
        ...

    def place(self, state: Any) -> Any:
        """A state that was kept, [lanes, …], as `chunk` takes it."""
        ...

    def chunk(self, state: Any) -> tuple[Any, dict[str, Any]]:
        """The next chunk: the state after it, the old one being used up, and rows [lanes, rows]."""
        ...

    def memory(self) -> int:
        """Bytes that it needs of each device, by `planned_bytes`; nothing is run."""
        ...

    def close(self) -> None:
        """Frees what it holds."""
        ...


@dataclasses.dataclass(frozen=True)
class HostTrainer:
    """A training run of all seeds whose environments are stepped on the host.

    Attributes:
      program: (seeds, their keys [lanes], hyper of arrays [lanes]) -> the program of these lanes.
      chunks, headline, ring: as in `Trainer`.
    """

    program: Callable[[Sequence[int], jax.Array, Hyper], Program]
    chunks: int
    headline: str
    ring: str | None = None


def planned_bytes(compiled: jax.stages.Compiled) -> int:
    """Bytes of a device while a program runs: arguments, results and what lies between."""
    plan = compiled.memory_analysis()
    if plan is None:
        raise NotImplementedError(f"{jax.default_backend()} does not say what a program needs.")
    return (
        plan.argument_size_in_bytes
        + plan.output_size_in_bytes
        + plan.temp_size_in_bytes
        - plan.alias_size_in_bytes  # results that take the place of arguments
    )


def strongly_typed(tree: Any) -> Any:
    """The same arrays without weak types, which would make a second program of the first chunk."""

    def strong(x: jax.Array) -> jax.Array:
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            return x
        return jax.lax.convert_element_type(x, x.dtype)

    return jax.tree.map(strong, tree)
