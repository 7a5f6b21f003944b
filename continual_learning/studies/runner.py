"""Runs all seeds of a method as one program, chunk by chunk."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from continual_learning.agents.common.lanes import over_lanes
from continual_learning.agents.common.trainer import (
    QUICK,
    HostTrainer,
    Program,
    Trainer,
    planned_bytes,
)
from continual_learning.schema.errors import StudyError

Columns = dict[str, np.ndarray]


class Keeper(Protocol):
    """A keeper of rows and states, such as a `Store`."""

    def write_part(self, method: str, chunk: int, columns: Mapping[str, np.ndarray]) -> None:
        """Keep the rows of a chunk."""
        ...

    def save(self, method: str, chunk: int, state: Any, lanes: int, ring: str | None) -> None:
        """Keep the first `lanes` lanes of the state after a chunk.

        Args:
          method: the name of the method.
          chunk: the number of the chunk.
          state: the state.
          lanes: the number of lanes to keep.
          ring: the path of a ring in the state, as in `Trainer`, or None.
        """
        ...

    def restore(self, method: str, like: Any) -> tuple[int, Any] | None:
        """Return the newest chunk and its state, or None if there is none."""
        ...


@dataclasses.dataclass(frozen=True)
class Lanes:
    """The seeds that run side by side, spread over the devices.

    Attributes:
      seeds: one seed per lane.
      hyper: {name: [lanes]}, the hyper-parameters that differ between lanes.
      devices: the devices among which lanes are divided.
    """

    seeds: Sequence[int]
    hyper: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    devices: Sequence[Any] = dataclasses.field(default_factory=jax.devices)

    @property
    def padding(self) -> int:
        """The number of lanes that repeat the last one to fill up the last device."""
        return -len(self.seeds) % len(self.devices)

    @property
    def sharding(self) -> NamedSharding:
        """The placement of [lanes, …] arrays, with a part on each device."""
        return NamedSharding(self._mesh, PartitionSpec("lanes"))

    def place(self, tree: Any) -> Any:
        """Put [lanes, …] arrays on the devices, with padding."""

        def put(x: Any) -> jax.Array:
            x = jnp.concatenate([x, *[x[-1:]] * self.padding]) if self.padding else x
            return jax.device_put(x, self.sharding)

        return jax.tree.map(put, tree)

    def replicate(self, tree: Any) -> Any:
        """Put arrays that all lanes share on every device."""
        return jax.device_put(tree, NamedSharding(self._mesh, PartitionSpec()))

    def real(self, tree: Any) -> Any:
        """Return [lanes, …] arrays without the padding."""
        count = len(self.seeds)
        return jax.tree.map(lambda x: x[:count], tree) if self.padding else tree

    def keys(self) -> jax.Array:
        """Return a key per lane, made of its seed alone, so that methods meet the same tasks."""
        return jax.vmap(jax.random.key)(jnp.asarray(self.seeds, jnp.uint32))

    @property
    def _mesh(self) -> Mesh:
        return Mesh(np.array(self.devices), ("lanes",))


class Compiled:
    """The program of a `Trainer`: its functions, mapped over lanes and compiled.

    Args:
      trainer: the trainer of one seed.
      lanes: the seeds.
    """

    def __init__(self, trainer: Trainer, lanes: Lanes):
        hyper = {name: jnp.asarray(values) for name, values in lanes.hyper.items()}
        self._lanes = lanes
        self._keys, self._hyper = lanes.place((lanes.keys(), hyper))
        self._data = lanes.replicate(trainer.data)
        self._quick = QUICK if lanes.devices[0].platform == "cpu" else {}
        count = len(lanes.seeds) + lanes.padding
        # A first state, a restored state and a state after a chunk have the same placement, so one
        # program runs all chunks.
        self._init: Any = jax.jit(
            over_lanes(trainer.init, count, (0, 0, None)),
            out_shardings=lanes.sharding,
            compiler_options=self._quick,  # it runs once
        )
        self._chunk: Any = jax.jit(
            over_lanes(trainer.chunk, count, (0, 0, None)),
            donate_argnums=0,
            out_shardings=(lanes.sharding, None),
            compiler_options=dict(trainer.options),
        )

    @functools.cached_property
    def _state(self) -> Any:
        """A tree like the state, with padding and placement."""
        return jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=self._lanes.sharding),
            jax.eval_shape(self._init, self._keys, self._hyper, self._data),
        )

    @property
    def like(self) -> Any:
        """A tree like the state, without padding."""
        lanes = len(self._lanes.seeds)
        return jax.tree.map(
            lambda x: jax.ShapeDtypeStruct((lanes, *x.shape[1:]), x.dtype), self._state
        )

    @property
    def columns(self) -> list[str]:
        """The names of the columns of rows."""
        return list(jax.eval_shape(self._chunk, self._state, self._hyper, self._data)[1])

    def compile(self, fresh: bool = True, quick: bool = False) -> None:
        """Compile `chunk`, and `init` for a fresh run; nothing is run."""
        state, more = self._state, self._quick if quick else {}
        if fresh:
            self._init = _ready(self._init, {}, self._keys, self._hyper, self._data)
        self._chunk = _ready(self._chunk, more, state, self._hyper, self._data)

    def init(self) -> Any:
        """Return the first state, with padding."""
        return self._init(self._keys, self._hyper, self._data)

    def place(self, state: Any) -> Any:
        """Put a state on the devices, with padding."""
        return self._lanes.place(state)

    def chunk(self, state: Any) -> tuple[Any, dict[str, Any]]:
        """Run the next chunk; return the state and the rows."""
        state, rows = self._chunk(state, self._hyper, self._data)
        return state, self._lanes.real(rows)

    def memory(self) -> int:
        """Return the bytes that a chunk needs on each device; nothing is run."""
        self.compile(fresh=False)
        return planned_bytes(self._chunk)

    def close(self) -> None:
        """Do nothing, because there is nothing to free."""


@dataclasses.dataclass(frozen=True)
class Progress:
    """The report after a chunk.

    Attributes:
      method: the name of the method.
      done, chunks: the number of chunks that are done, and of all chunks.
      seconds: the duration of the chunk.
      steps: the steps of all lanes in the chunk.
      columns: the rows of the chunk.
    """

    method: str
    done: int
    chunks: int
    seconds: float
    steps: int
    columns: Columns


def run_method(
    method: str,
    trainer: Trainer | HostTrainer,
    lanes: Lanes,
    keeper: Keeper,
    *,
    program: Program | None = None,
    extend: Callable[[int, Columns], Columns] = lambda chunk, columns: columns,
    stop: Callable[[], bool] = lambda: False,
    report: Callable[[Progress], None] = lambda progress: None,
    until: int | None = None,
    checkpoint_seconds: float = 60.0,
) -> bool:
    """Run all lanes of a method, from the newest state that was kept.

    Args:
      method: the name of the method in the store.
      trainer: the trainer of the method.
      lanes: the seeds.
      keeper: the keeper of rows and states.
      program: the result of `program_of`, if it was made before; this function closes it.
      extend: a function (chunk, rows) -> the rows to keep, with columns that the host adds.
      stop: a function that is called after every chunk; True ends the run with everything kept.
      report: a function that is called with the progress after every chunk.
      until: the number of chunks after which to end as by `stop`, or None for all.
      checkpoint_seconds: the longest time between two states that are kept. After a crash, the
        chunks after the last state that was kept are run again.

    Returns:
      Whether the method is finished.
    """
    with contextlib.closing(program or program_of(trainer, lanes)) as program:
        found = keeper.restore(method, program.like)
        first = 0 if found is None else found[0] + 1
        end = trainer.chunks if until is None else min(until, trainer.chunks)
        if first >= end:
            return first >= trainer.chunks
        state = program.init() if found is None else program.place(found[1])
        kept = time.monotonic()
        for number in range(first, end):
            begin = time.monotonic()
            state, rows = program.chunk(state)
            columns = extend(number, tidy(lanes, rows))
            keeper.write_part(method, number, columns)
            now = time.monotonic()
            last, stopping = number + 1 == end, stop()
            if last or stopping or now - kept >= checkpoint_seconds:
                # The state keeps its padding: a slice would copy all of it on the device.
                keeper.save(method, number, state, len(lanes.seeds), trainer.ring)
                kept = time.monotonic()
            steps = int(columns["step"].max()) // (number + 1) * len(lanes.seeds)
            report(Progress(method, number + 1, trainer.chunks, now - begin, steps, columns))
            if stopping and not last:
                return False
    return end == trainer.chunks


def program_of(trainer: Trainer | HostTrainer, lanes: Lanes) -> Program:
    """Return the program that runs all lanes."""
    if isinstance(trainer, Trainer):
        return Compiled(trainer, lanes)
    hyper = {name: jnp.asarray(values) for name, values in lanes.hyper.items()}
    return trainer.program(lanes.seeds, lanes.keys(), hyper)


def check_room(like: Any) -> None:
    """Raise a StudyError if a state is too large for all devices together, even empty ones."""
    needed = sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(like))
    devices = jax.devices()
    stats = devices[0].memory_stats() or {}
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    there = stats["bytes_limit"] * len(devices) if "bytes_limit" in stats else machine
    if needed > there:
        raise StudyError(
            f"The state of all seeds takes {needed / 1e9:,.1f} GB, more than the "
            f"{there / 1e9:,.1f} GB there are: use fewer seeds, environments or units, or a "
            "smaller replay (capacity)."
        )


def _ready(function: Any, options: dict[str, Any], *args: Any) -> jax.stages.Compiled:
    """Return a function compiled for these arguments, or as it is if it is compiled already."""
    done = isinstance(function, jax.stages.Compiled)
    return function if done else function.lower(*args).compile(options)


def tidy(lanes: Lanes, rows: Mapping[str, Any]) -> Columns:
    """Return {column: [lanes · rows]} of {column: [lanes, rows]}, with seeds and `hyper`."""
    arrays = {name: np.asarray(values) for name, values in rows.items()}
    count, length = arrays["step"].shape
    columns: Columns = {"seed": np.repeat(np.asarray(lanes.seeds, np.int64), length)}
    columns |= {f"hyper_{k}": np.repeat(np.asarray(v), length) for k, v in lanes.hyper.items()}
    assert count == len(lanes.seeds)
    return columns | {name: values.reshape(-1) for name, values in arrays.items()}
